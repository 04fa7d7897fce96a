package reading

// Outcome is what becomes of a message. Each ends as exactly one of Stored,
// Repeated, Ignored and Rejected, and is acknowledged then, whichever it is:
// a message that holds its slot at the broker for ever stops the flow.
type Outcome uint8

// The outcomes.
const (
	Pending  Outcome = iota // its readings are on their way
	Stored                  // at least one reading is new and stored
	Repeated                // every reading was there already: "duplicate"
	Ignored                 // it is no reading and need not be one
	Rejected                // it could not be understood, or nothing of it stored
)

// String is the outcome as the metrics and commands name it.
func (o Outcome) String() string {
	return [...]string{"pending", "stored", "duplicate", "ignored", "rejected"}[o]
}

// Reason says why a message or one of its readings was not stored. The list is
// closed, so that a metric can have it as a label.
type Reason string

// Reasons to refuse. They are counted in gudang_rejected_total.
const (
	InvalidJSON        Reason = "invalid_json"        // not JSON, or truncated
	TrailingData       Reason = "trailing_data"       // something behind the JSON
	InvalidUTF8        Reason = "invalid_utf8"        // bytes that are no UTF-8 text
	TooLarge           Reason = "too_large"           // payload over the size limit
	TooDeep            Reason = "too_deep"            // JSON nested over the limit
	DuplicateKey       Reason = "duplicate_key"       // a JSON object with one key twice
	InvalidValue       Reason = "invalid_value"       // text, null or an unknown unit where a number belongs
	Boolean            Reason = "boolean"             // true or false where a number belongs
	DecimalComma       Reason = "decimal_comma"       // 26,4
	ThousandsSeparator Reason = "thousands_separator" // 1,008.31
	NumberSyntax       Reason = "number_syntax"       // 0x1p4, 1_000: a number to a compiler
	ControlCharacter   Reason = "control_character"   // in a sensor id, or in the text of a value
	NotFinite          Reason = "not_finite"          // NaN or an infinity
	OutOfRange         Reason = "out_of_range"        // not plausible for the metric
	NoReading          Reason = "no_reading"          // nothing in it that could be a reading
	NoSensor           Reason = "no_sensor"           // neither payload nor topic names a sensor
	IDTooLong          Reason = "id_too_long"         // a sensor id over the limit
	InvalidSensor      Reason = "invalid_sensor"      // a sensor id that its format does not allow
	InvalidMetric      Reason = "invalid_metric"      // no metric name can be made of it
	TooManyReadings    Reason = "too_many_readings"   // more readings in one message than the limit
	TooManySensors     Reason = "too_many_sensors"    // beyond MAX_SENSORS
	ValueConflict      Reason = "conflict"            // another value is stored for this series and time
	StoreRefused       Reason = "store_refused"       // the store will never take it
	DecoderFault       Reason = "decoder_fault"       // a bug of ours that the message hit
	QueueFull          Reason = "queue_full"          // QoS 0 only: no room, and nobody to send it again
)

// Reasons to ignore. They are counted in gudang_ignored_total.
const (
	Retained     Reason = "retained"     // an old message, replayed at subscribe, without a time of its own
	EmptyPayload Reason = "empty"        // how a retained message is deleted
	StatusWord   Reason = "status"       // "online", "unavailable" and such
	NotSelected  Reason = "not_selected" // no MQTT_TOPICS entry wants the topic
)

// RejectReasons and IgnoreReasons list every reason, for metrics and docs.
var (
	RejectReasons = []Reason{
		InvalidJSON, TrailingData, InvalidUTF8, TooLarge, TooDeep, DuplicateKey,
		InvalidValue, Boolean, DecimalComma, ThousandsSeparator, NumberSyntax, ControlCharacter, NotFinite, OutOfRange,
		NoReading, NoSensor, IDTooLong, InvalidSensor, InvalidMetric, TooManyReadings, TooManySensors, ValueConflict, StoreRefused, DecoderFault, QueueFull,
	}
	IgnoreReasons = []Reason{Retained, EmptyPayload, StatusWord, NotSelected}
)

// Acker acknowledges messages to whoever sent them: one connection to a broker.
// It may be called from any goroutine, and however late: once the connection
// is gone it does nothing, and the broker sends the message again.
type Acker interface{ Ack(id uint16, qos byte) }

// Delivery is one message on its way through the pipeline.
type Delivery struct {
	Readings int     // how many of the batch's readings are its
	Outcome  Outcome // Pending, or what the decoder made of it
	Reason   Reason  // why it is ignored or rejected
	Acker    Acker   // nil: nobody waits for an acknowledgement
	ID       uint16  // MQTT packet identifier, for the Acker
	QoS      byte

	// A message whose readings have no time of their own got one when it
	// arrived. Should the broker send it again, to a process that was started
	// since, it must get that time again, or it would count twice: so its hash
	// and the time are kept with it. The hash is of topic and payload, and the
	// same in every process.
	Hash  uint64 // 0: its readings have times of their own
	Stamp int64  // the time it was given, in ms
}

// Done acknowledges the message.
func (d *Delivery) Done() {
	if d.Acker != nil {
		d.Acker.Ack(d.ID, d.QoS)
	}
}

// Batch is a run of deliveries in order of arrival. The readings of all of
// them lie in one slice, in the same order, so that a batch of any size costs
// a handful of allocations.
type Batch struct {
	Deliveries []Delivery
	Readings   []Reading
	Dropped    []Reason // metrics left out of messages that are otherwise good
	Overflow   int      // messages dropped for want of room, which nobody will send again
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.Deliveries)
	clear(b.Readings)
	b.Deliveries, b.Readings, b.Dropped, b.Overflow = b.Deliveries[:0], b.Readings[:0], b.Dropped[:0], 0
}

// Refusal says why one reading of a bucket was not stored.
type Refusal struct {
	Bucket  *Bucket // as it was given to be written
	Offset  int32
	Verdict Verdict // Duplicate or Conflict; Added: refused for Reason
	Reason  Reason
	Detail  string // what the store said
}
