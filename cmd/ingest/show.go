package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

const hidden = "********"

// runConfig prints the settings in force.
func runConfig(_ context.Context, c *config, out io.Writer, args []string) error {
	set := newFlags("config")
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	values := map[string]any{}
	c.settings(func(name string, value any, secret bool) {
		text := shown(name, value, secret)
		values[name] = text
		if !*asJSON {
			fmt.Fprintf(out, "%s=%s\n", name, text)
		}
	})
	if *asJSON {
		return json.NewEncoder(out).Encode(values)
	}
	return nil
}

// shown is a setting as anybody may see it. Of a database's URI that is the
// URI without its password, since people need to see where it points.
func shown(name string, value any, secret bool) string {
	text := fmt.Sprint(value)
	switch {
	case text == "":
		return ""
	case name == "MONGODB_URI", name == "MQTT_URL":
		return redact(text)
	case secret:
		return hidden
	}
	return text
}

// secretOptions are the options of a MongoDB URI that may hold a secret.
var secretOptions = []string{"authmechanismproperties", "tlscertificatekeyfilepassword", "sslclientcertificatekeypassword", "proxypassword"}

// redact hides the secrets in a comma-separated list of URLs. It works on the
// text: a list of hosts, or a password with signs in it, is no URL to net/url.
func redact(list string) string {
	if strings.HasPrefix(list, "mongodb") {
		return redactOne(list) // commas separate its hosts
	}
	items := strings.Split(list, ",")
	for i := range items {
		items[i] = redactOne(items[i])
	}
	return strings.Join(items, ",")
}

func redactOne(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		if strings.Contains(text, "@") {
			return hidden
		}
		return text
	}
	// A password may hold a slash although it shouldn't: take the last @ of all.
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, _, secret := strings.Cut(rest[:at], ":")
		if secret {
			user += ":" + hidden
		}
		rest = user + rest[at:]
	}
	path, query, ok := strings.Cut(rest, "?")
	if !ok {
		return scheme + "://" + rest
	}
	options := strings.Split(query, "&")
	for i, o := range options {
		if name, _, _ := strings.Cut(o, "="); slices.Contains(secretOptions, strings.ToLower(name)) {
			options[i] = name + "=" + hidden
		}
	}
	return scheme + "://" + path + "?" + strings.Join(options, "&")
}

// runVersion prints the version.
func runVersion(_ context.Context, _ *config, out io.Writer, args []string) error {
	set := newFlags("version")
	asJSON := set.Bool("json", false, "for programs")
	if err := parse(set, args); err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	fmt.Fprintf(out, "ingest %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}
