package decode

import (
	"strings"
	"testing"
)

func TestLargeMessagesAllocateLittle(t *testing.T) {
	for name, payload := range map[string]string{
		"senml":      `[{"bn":"a/","bt":1796547900}` + strings.Repeat(`,{"n":"t","v":1}`, 15000) + "]",
		"influx":     strings.Repeat("m,id=a t=1 1796547910\n", 9000) + strings.Repeat("x\n", 9000),
		"ruuvi":      adv(strings.Repeat("02FF", 60000)),
		"ttn":        `{"uplink_message":{"decoded_payload":[` + strings.Repeat(`{"t":1},`, 9000) + `{}]}}`,
		"chirpstack": `{"objectJSON":"[` + strings.Repeat(`{\"t\":1},`, 9000) + `{}]"}`,
		"sparkplug":  payload(make([]sparkplug, 50000)...),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, "spBv1.0/+/NDATA/{sensor}="+name)
			var out Result
			m := Message{Topic: "spBv1.0/g/NDATA/e", Payload: []byte(payload), Received: received.UnixMilli()}
			used := allocated(func() { d.Decode(m, &out) })
			checkResult(t, m, &out)
			if limit := uint64(64 * len(payload)); used > limit {
				t.Errorf("%d bytes allocated %d, %.1f times as much", len(payload), used, float64(used)/float64(len(payload)))
			}
			t.Logf("%d bytes allocated %d: %.100s", len(payload), used, describe(&out))
		})
	}
}
