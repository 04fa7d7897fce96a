package decode

import (
	"math/rand/v2"
	"testing"
	"time"
)

var timeSeeds = []string{
	"1796547910", "1796547910123", "1796547910123456", "1796547910123456789", "1796547910.62", "1.79654791e+09", "-5", "0", "2026-12-06T09:05:10Z",
	"2026-12-06T09:05:10.123456789+01:00", "2026-12-06t09:05:10z", "2026-12-06 09:05:10", "2026/12/06 09:05", "2026-02-29T00:00:00Z", "2024-02-29T23:59:59Z", "0000-01-01T00:00:00Z",
	"9999-12-31T23:59:59.999Z", "2026-12-06T24:00:00Z", "2026-12-06T09:05:10,5-0330", "99999999999999999999", "2026-10-25T02:30:00", "2026-03-29T02:30:00",
}

func TestTimes(t *testing.T) {
	c := clock{zone: time.UTC}
	const at = "2026-12-06T09:05:10.123Z"
	for _, x := range []struct{ name, text, want string }{
		{"seconds", "1796547910", "2026-12-06T09:05:10Z"},
		{"milliseconds to the last digit", "1796547910123", at},
		{"microseconds", "1796547910123456", at},
		{"nanoseconds, which a float64 does not hold", "1796547910123999999", at},
		{"seconds with a fraction", "1796547910.123", at},
		{"a fraction that a float64 made", "1796547910.12299991", at},
		{"a fraction that is nearly a second", "1796547909.9999999", "2026-12-06T09:05:10Z"},
		{"milliseconds with a fraction", "1796547910123.7", at},
		{"an exponent", "1.796547910123e9", at},
		{"an exponent of milliseconds", "1.796547910123E+12", at},
		{"before 1970", "-1", "1969-12-31T23:59:59Z"},
		{"RFC 3339", at, at},
		{"an offset", "2026-12-06T10:05:10.123+01:00", at},
		{"a negative one of half hours", "2026-12-06T05:35:10.123-03:30", at},
		{"without its colon", "2026-12-06T10:05:10.123+0100", at},
		{"of hours only", "2026-12-06T10:05:10.123+01", at},
		{"lower case", "2026-12-06t09:05:10.123z", at},
		{"finer than a millisecond", "2026-12-06T09:05:10.123999999Z", at},
		{"a comma", "2026-12-06T09:05:10,123Z", at},
		{"a blank for the T", "2026-12-06 09:05:10.123", at},
		{"slashes and no seconds", "2026/12/06 09:05", "2026-12-06T09:05:00Z"},
		{"a zone in words", "2026-12-06 09:05:10.123 UTC", at},
		{"a leap day", "2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"no leap day", "2025-02-29T00:00:00Z", ""},
		{"no leap day in 2100", "2100-02-29T00:00:00Z", ""},
		{"31 November", "2026-11-31T00:00:00Z", ""},
		{"month 13", "2026-13-01T00:00:00Z", ""},
		{"hour 24", "2026-12-06T24:00:00Z", ""},
		{"second 60", "2026-12-06T09:05:60Z", ""},
		{"an offset of a day", "2026-12-06T09:05:10+24:00", ""},
		{"a fraction without digits", "2026-12-06T09:05:10.Z", ""},
		{"something behind", "2026-12-06T09:05:10Zulu", ""},
		{"a date alone", "2026-12-06", ""},
		{"a time of day alone", "09:05:10", ""},
		{"an integer too long", "17965479101234567890", ""},
		{"hexadecimal", "0x6B1234", ""},
		{"no digits", "yesterday", ""},
		{"NaN", "nan", ""},
		{"an exponent beyond all", "1e300", ""},
		{"nothing", "", ""},
		{"a sign", "-", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			ms, ok := c.parse([]byte(x.text), 0)
			if x.want == "" {
				if ok {
					t.Fatalf("got %v, want an error", time.UnixMilli(ms).UTC())
				}
				return
			}
			want, err := time.Parse(time.RFC3339, x.want)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || ms != want.UnixMilli() {
				t.Errorf("got %v (%v), want %v", time.UnixMilli(ms).UTC(), ok, want)
			}
		})
	}
}

func TestLocalTimes(t *testing.T) {
	for _, x := range []struct{ name, zone, text, received, want string }{
		{"winter", "Europe/Rome", "2026-12-06 10:05:10", "2026-12-06T09:05:30Z", "2026-12-06T09:05:10Z"},
		{"summer", "Europe/Rome", "2026-07-06 11:05:10", "2026-07-06T09:05:30Z", "2026-07-06T09:05:10Z"},
		{"a zone without changes", "Asia/Jakarta", "2026-12-06 16:05:10", "2026-12-06T09:05:30Z", "2026-12-06T09:05:10Z"},
		{"an hour before the hour that comes twice", "Europe/Rome", "2026-10-25 01:30:00", "2026-10-24T23:30:05Z", "2026-10-24T23:30:00Z"},
		{"the first time of two", "Europe/Rome", "2026-10-25 02:30:00", "2026-10-25T00:30:05Z", "2026-10-25T00:30:00Z"},
		{"the second time of two", "Europe/Rome", "2026-10-25 02:30:00", "2026-10-25T01:30:05Z", "2026-10-25T01:30:00Z"},
		{"received long after, the second is the nearer", "Europe/Rome", "2026-10-25 02:30:00", "2026-11-01T00:00:00Z", "2026-10-25T01:30:00Z"},
		{"the first moment that comes twice", "Europe/Rome", "2026-10-25 02:00:00", "2026-10-25T00:00:01Z", "2026-10-25T00:00:00Z"},
		{"the first moment after", "Europe/Rome", "2026-10-25 03:00:00", "2026-10-25T02:00:01Z", "2026-10-25T02:00:00Z"},
		{"a skipped time is of a clock that did not change", "Europe/Rome", "2026-03-29 02:30:00", "2026-03-29T01:30:05Z", "2026-03-29T01:30:00Z"},
		{"the last moment before the gap", "Europe/Rome", "2026-03-29 01:59:59", "2026-03-29T01:00:00Z", "2026-03-29T00:59:59Z"},
		{"the first moment after the gap", "Europe/Rome", "2026-03-29 03:00:00", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"},
		{"west of Greenwich, the second of two", "America/New_York", "2026-11-01 01:30:00", "2026-11-01T06:30:05Z", "2026-11-01T06:30:00Z"},
		{"half an hour twice", "Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T15:15:05Z", "2026-04-04T15:15:00Z"},
		{"far east", "Pacific/Kiritimati", "2026-12-06 23:05:10", "2026-12-06T09:05:30Z", "2026-12-06T09:05:10Z"},
	} {
		t.Run(x.name, func(t *testing.T) {
			zone, err := time.LoadLocation(x.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, x.received)
			if err != nil {
				t.Fatal(err)
			}
			c := clock{zone: zone}
			ms, ok := c.parse([]byte(x.text), at.UnixMilli())
			if got := time.UnixMilli(ms).UTC().Format(time.RFC3339); !ok || got != x.want {
				t.Errorf("got %s (%v), want %s", got, ok, x.want)
			}
		})
	}
}

// Each instant, shown on a wall and received soon after, must come back.
func TestLocalTimesComeBack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Jakarta", "America/St_Johns", "Africa/Casablanca", "UTC"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		c := clock{zone: zone}
		for range 5000 {
			want := time.Unix(1420070400+rnd.Int64N(15*365*86400), 0)
			text := want.In(zone).Format("2006-01-02 15:04:05")
			if ms, ok := c.parse([]byte(text), want.UnixMilli()+200); !ok || ms != want.UnixMilli() {
				t.Fatalf("%s %s: got %v, want %v", name, text, time.UnixMilli(ms).UTC(), want.UTC())
			}
		}
	}
}

func TestAVeryLargeWindowDoesNotOverflow(t *testing.T) {
	c, err := newClock(nil, 0, 876000*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now := received.UnixMilli()
	if why := c.doubt(earliest, now); why != "" {
		t.Errorf("2015 is not believed: %s", why)
	}
	if c.doubt(earliest-1, now) == "" || c.doubt(now+1, now) == "" {
		t.Error("a time outside the window is believed")
	}
}
