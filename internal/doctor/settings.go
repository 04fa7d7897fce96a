package doctor

import (
	"fmt"
	"time"

	"gudang/internal/query"
	"gudang/internal/reading"
)

// Examination is what was found of the store.
type Examination = query.Examination

// Input is everything there is to judge.
type Input struct {
	Now      time.Time
	Settings Settings
	Brokers  []Broker
	Store    Examination
	StoreErr error // why it could not be looked at
	// Free is the space left for DATA_DIR, -1 if not known. Disk is the size of
	// the disk that the store is on, 0 if nobody said.
	Free, Disk int64
}

// Settings are those that the checks look at.
type Settings struct {
	EmbeddedBroker, EmbeddedStore bool
	QoS                           int
	Share                         string
	Leave                         bool
	Username, Password            bool   // whether it is set
	PlainTo                       string // a broker beyond this machine that is reached without TLS
	Journal                       bool
	JournalMaxBytes               int64
	Span                          reading.Span
	ReadingInterval               time.Duration
	FlushInterval                 time.Duration
	OutlierReadings               int64
	Raw                           bool
	Retention, RawRetention       time.Duration
	ClockAhead                    time.Duration
}

// Broker is one that was asked, and what came of it.
type Broker struct {
	Name    string // without secrets
	Err     error
	Took    time.Duration
	Version string
}

// expected is how many readings a bucket should have.
func (s Settings) expected() float64 {
	return float64(s.Span.Duration()) / float64(s.ReadingInterval)
}

// unjournaledFlush is how long acknowledgements may wait: a broker sends only
// so many messages ahead of them.
const unjournaledFlush = 10 * time.Second

// settings looks for settings that contradict each other or risk readings.
func (r *Report) settings(s Settings) {
	const check = "settings"
	before := len(r.Findings)
	if s.Share != "" && s.EmbeddedStore {
		r.find(Serious, check, "MQTT_SHARE is set, but each instance has a store of its own", "MQTT_SHARE="+s.Share+", MONGODB_URI is empty",
			"set MONGODB_URI to one MongoDB for all instances; as it is, none of the stores has all readings")
	}
	if s.Share != "" && s.EmbeddedBroker {
		r.find(Warning, check, "MQTT_SHARE does nothing with the embedded broker", "MQTT_URL is empty", "set MQTT_URL to the broker that the instances share, or take MQTT_SHARE out")
	}
	if s.QoS == 0 && !s.EmbeddedBroker {
		r.find(Warning, check, "messages that come while the service is away or busy are lost", "MQTT_QOS=0", "set MQTT_QOS=1, and publish at QoS 1 too")
	}
	if s.Leave && s.Share == "" && !s.EmbeddedBroker {
		r.find(Warning, check, "each stop removes the session: what is published until the next start is lost", "MQTT_LEAVE=true without MQTT_SHARE",
			"leave MQTT_LEAVE out; it is for one of several instances that goes for good")
	}
	if !s.Journal && s.FlushInterval >= unjournaledFlush && s.QoS > 0 {
		r.find(Warning, check, "messages are acknowledged late: the broker's limits are reached early", fmt.Sprintf("JOURNAL=off and FLUSH_INTERVAL=%v", s.FlushInterval),
			"set JOURNAL=on, or FLUSH_INTERVAL to a few seconds")
	}
	if !s.Journal && !s.EmbeddedBroker && s.QoS > 0 {
		r.find(Note, check, "only the broker holds what is not stored yet", "JOURNAL=off", "let the broker persist its sessions, with a queue for the longest outage of the store; or set JOURNAL=on")
	}
	if s.FlushInterval > s.Span.Duration() {
		r.find(Warning, check, "readings wait in memory for longer than a bucket lasts", fmt.Sprintf("FLUSH_INTERVAL=%v, BUCKET_SPAN=%v", s.FlushInterval, s.Span.Duration()),
			"set FLUSH_INTERVAL to BUCKET_SPAN at most: more saves no write")
	}
	if want := s.expected(); want > float64(s.OutlierReadings) {
		r.find(Warning, check, "every bucket becomes an outlier, and none saves anything", fmt.Sprintf("OUTLIER_READINGS=%d, but %.0f readings are expected in a bucket of %v", s.OutlierReadings, want, s.Span.Duration()),
			"shorten BUCKET_SPAN, or raise OUTLIER_READINGS above that")
	}
	if s.RawRetention > 0 && !s.Raw {
		r.find(Note, check, "no new raw readings are kept", "RAW_RETENTION is set and RAW is not", "set RAW=true if they are wanted")
	}
	if s.Password && !s.Username {
		r.find(Warning, check, "the password is not sent", "MQTT_PASSWORD is set and MQTT_USERNAME is not", "set both")
	}
	if s.PlainTo != "" && s.Password {
		r.find(Warning, check, "the broker's password crosses the network for all to read", "MQTT_URL names "+s.PlainTo+" without TLS", "use ssl:// or wss://")
	}
	if len(r.Findings) == before {
		r.fact(check, "do not contradict each other")
	}
}

// brokers judges how the brokers answered.
func (r *Report) brokers(in Input) {
	const check = "broker"
	up := 0
	for _, b := range in.Brokers {
		if b.Err == nil {
			up++
			text := fmt.Sprintf("%s takes connections, in %v", b.Name, b.Took.Round(time.Millisecond))
			if b.Version != "" {
				text += fmt.Sprintf(", version %q", b.Version)
			}
			r.fact(check, "%s; MQTT 3.1.1 names no limits", text)
		}
	}
	for _, b := range in.Brokers {
		switch {
		case b.Err == nil:
		case in.Settings.EmbeddedBroker:
			r.find(Warning, check, "the service does not listen: no sensor can publish", b.Err.Error(), "start it, or mend EMBEDDED_MQTT_ADDR; if it runs, look at its log")
		case up > 0:
			r.find(Warning, check, "one of the brokers cannot be used: there is no failover to it", b.Err.Error(), "bring it back, or take it out of MQTT_URL")
		default:
			r.find(Serious, check, "the broker cannot be used: nothing arrives", b.Err.Error(), "start it, or mend MQTT_URL and the credentials")
		}
	}
}
