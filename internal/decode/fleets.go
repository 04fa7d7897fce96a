package decode

import (
	"slices"
	"strings"
)

// Fleet is a kind of devices whose topics are known, so that its name alone is
// an entry of MQTT_TOPICS: it stands for all the templates here, read by the
// decoder of that name.
type Fleet struct {
	Name    string
	Doc     string
	Topics  []string // templates, without a decoder
	Samples []Sample
}

// Sample is a message as such a device sends it. What becomes of it is not
// written down here: the documentation asks the decoder.
type Sample struct {
	Topic   string
	Payload string // of a binary dialect: in base64
}

// Fleets is the table of those that are known, in the order of the
// documentation. A template takes no more than the topics that readings come
// on: whatever else a fleet publishes then never leaves the broker. It takes no
// two topics that repeat a reading either, unless a device sends just one of
// the two as it is set up.
func Fleets() []Fleet {
	return []Fleet{
		// What stands here is in the file of its decoder.
		tasmotaFleet(), esphomeFleet(), zigbee2mqttFleet(), shellyFleet(), homeAssistantFleet(), homieFleet(),
		ruuviFleet(), ttnFleet(), chirpstackFleet(), sparkplugFleet(),
		openMQTTGatewayFleet(), rtl433Fleet(), awsFleet(), thingsBoardFleet(),
	}
}

func findFleet(name string) *Fleet {
	fleets := Fleets()
	if i := slices.IndexFunc(fleets, func(f Fleet) bool { return f.Name == name }); i >= 0 {
		return &fleets[i]
	}
	return nil
}

func fleetNames() string {
	var names []string
	for _, f := range Fleets() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// routes are the entries that the fleet stands for.
func (f *Fleet) routes() ([]*route, error) {
	var routes []*route
	for _, topic := range f.Topics {
		r, err := parseRoute(topic + "=" + f.Name)
		if err != nil {
			return nil, err
		}
		routes = append(routes, r)
	}
	return routes, nil
}
