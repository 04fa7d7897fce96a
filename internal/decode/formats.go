package decode

import "strings"

// format is a way to read payloads. Each has a file of its own; this table is
// all that knows of it. Its decode reads d.msg and ends the message with
// reject or ignore, or adds readings for settle to sort out.
type format struct {
	name   string
	doc    string
	binary bool // its payloads are no UTF-8 text
	decode func(*Decoder)
}

const auto = "auto"

func formats() []format {
	return []format{
		{name: auto, doc: "a plain number, or JSON: flat, nested, or an array of either", decode: decodeAuto},
		{name: "json", doc: "JSON: flat, nested, or an array of either", decode: decodeJSON},
		{name: "number", doc: "one plain number; the topic names the metric", decode: decodeNumber},
	}
}

func findFormat(name string) *format {
	for _, f := range formats() {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func formatNames() string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}
