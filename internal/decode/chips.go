package decode

import (
	"slices"
	"strings"
)

// chips are the sensor chips that senders put behind the name of a metric.
var chips = []string{"sht", "sht2x", "sht3x", "sht30", "sht31", "sht4x", "aht", "ds", "ds18b20", "dht", "dht11", "dht22", "am2301", "bme", "bme280", "bme680", "bmp", "bmp180", "bmp280", "scd30", "scd4x"}

// ofChip finds metrics of a known kind with the chip that measured them behind
// it: temperature_ds18b20, TempC_SHT. They are of that unit and range, so that
// what a chip says when it is unplugged is refused there, too.
func (n *names) ofChip(name string) (field, bool) {
	base, chip, ok := cutLast(name, "_")
	if !ok || !slices.Contains(chips, chip) || strings.HasSuffix(base, "_") {
		return field{}, false
	}
	f := n.classify(base)
	if f.role != roleMetric || !f.known || len(f.name)+1+len(chip) > MaxMetric {
		return field{}, false
	}
	f.name += "_" + chip
	f.timeLike = false
	return f, true
}
