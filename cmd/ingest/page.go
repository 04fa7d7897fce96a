package main

import (
	"regexp"
	"strings"
	"time"

	"gudang/internal/decode"
	"gudang/internal/web"
)

// silentAfter is how many readings a sensor may miss before it is marked as
// silent, and what that comes to at least.
const (
	silentAfter = 6
	silentLeast = time.Minute
)

// page is what the pages are made from.
func (s *service) page() web.PageConfig {
	c := s.cfg
	return web.PageConfig{
		Unit: metricUnit(), Zone: c.zone, Span: c.span, Hints: s.hints(),
		// What is flushed seldom is stored as late as that.
		StaleAfter: max(silentLeast, silentAfter*c.ReadingInterval) + c.FlushInterval,
	}
}

// metricUnit says what unit a metric is stored in. One of a known kind, such as
// soil_temperature, has that of the kind.
func metricUnit() func(metric string) string {
	units := map[string]string{}
	for _, m := range decode.NewReference().Metrics {
		units[m.Name] = m.Unit
	}
	return func(metric string) string {
		for rest, more := metric, true; more; _, rest, more = strings.Cut(rest, "_") {
			if unit, ok := units[rest]; ok {
				return unit
			}
		}
		return ""
	}
}

// hints are commands that make a first reading appear.
func (s *service) hints() []web.Hint {
	c := s.cfg
	host, port := "localhost", "1883"
	server := "tcp://localhost:1883"
	switch {
	case s.broker != nil:
		host, port = split(s.broker.Addr())
		server = "tcp://" + s.broker.Addr()
	case len(c.urls) > 0:
		u := c.urls[0]
		host, server = u.Hostname(), u.Scheme+"://"+u.Host
		if port = u.Port(); port == "" {
			port = "1883"
		}
	}
	login := ""
	if strings.HasPrefix(server, "ssl://") {
		login = " --tls-use-os-certs"
	}
	if c.MQTTUsername != "" {
		login += " -u USER -P PASSWORD"
	}
	topic, payload := example(c.MQTTTopics)
	hints := []web.Hint{{
		What:    "A reading by hand",
		Command: "mosquitto_pub -h " + host + " -p " + port + login + " -q 1 -t " + quote(topic) + " -m " + quote(payload),
	}}
	if login == "" && topic == "warehouse/S-01/reading" {
		hints = append(hints, web.Hint{What: "A simulated fleet of 40 sensors", Command: "simulate -broker " + server + " -sensors 40"})
	}
	return append(hints, web.Hint{
		What:    "Nothing appears? What becomes of a message, and why",
		Command: "echo " + quote(payload) + " | ingest parse " + quote(topic),
	})
}

// example is a topic that the first template takes, and a payload for it.
func example(topics string) (topic, payload string) {
	payload = `{"temperature": 26.4, "humidity": 61}`
	for t := range strings.SplitSeq(topics, ",") {
		template, decoder, named := strings.Cut(strings.TrimSpace(t), "=")
		if !strings.Contains(template, "{sensor") || named && decoder != "json" && decoder != "auto" {
			continue
		}
		if strings.Contains(template, "{metric}") {
			payload = "26.4"
		}
		return strings.NewReplacer("{sensor}", "S-01", "{sensor...}", "S-01", "{metric}", "temperature", "+", "x", "#", "x").Replace(template), payload
	}
	return "warehouse/S-01/reading", payload
}

var plainWord = regexp.MustCompile(`^[\w./:-]+$`)

// quote makes one word of a text, for a shell.
func quote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// split takes an address that is listened on apart.
func split(addr string) (host, port string) {
	i := strings.LastIndexByte(addr, ':')
	return strings.Trim(addr[:i], "[]"), addr[i+1:]
}
