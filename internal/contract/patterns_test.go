package contract

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gudang/internal/mongodb"
	"gudang/internal/query"
	"gudang/internal/reading"
)

// docs/patterns.md tells sizes. These are they, by the functions that the
// product measures with; that those agree with the stores is tested elsewhere.
func TestThePageAboutThePatternsHasTheRightSizes(t *testing.T) {
	text, err := os.ReadFile("../../docs/patterns.md")
	if err != nil {
		t.Fatal(err)
	}
	temperature, vibration := series("S-01", "temperature"), series("S-01", "vibration")
	raw, two := 12*query.RawSize(temperature), 2*query.BucketSize(temperature, 6)
	hourRaw, hour := 360*query.RawSize(temperature), query.BucketSize(temperature, 360)
	saved := func(of, with int64) string { return fmt.Sprintf("%.1f %%", 100*(1-float64(with)/float64(of))) }
	sensor := reading.Sensor{ID: "S-01", Metrics: map[string][]reading.Point{"temperature": make([]reading.Point, 10), "humidity": make([]reading.Point, 10)}}
	doc := mongodb.AppendSensor(nil, sensor, 10)
	id := temperature.ID(base)
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	for _, want := range []string{
		"| " + comma(raw) + " | |", fmt.Sprintf("| %s | %s |", comma(two), saved(raw, two)),
		"| " + comma(hourRaw) + " | |", fmt.Sprintf("| %s | %s |", comma(hour), saved(hourRaw, hour)),
		"344 | " + saved(840, 344),
		comma(query.BucketSize(vibration, 60_000)) + " bytes",
		fmt.Sprintf("%d bytes for two metrics", len(doc)),
		uuid,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/patterns.md does not say %q", want)
		}
	}
}

func comma(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", comma(n/1000), n%1000)
}
