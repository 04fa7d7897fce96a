package decode

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// clock decides which of the times that sensors send are believed. A device
// that has not reached its time server says 1970, or its uptime; stored at
// such a time a reading is lost to every query, and one from the future stays
// "the latest" for years.
type clock struct {
	zone   *time.Location
	ahead  int64 // ms
	behind int64 // ms
}

// earliest is 2015-01-01: no sensor that is alive has an older reading to send.
const earliest = 1420070400000

func newClock(zone *time.Location, ahead, behind time.Duration) (clock, error) {
	if ahead < 0 || behind < 0 {
		return clock{}, fmt.Errorf("clock tolerance %v ahead, %v behind: must not be negative", ahead, behind)
	}
	if zone == nil {
		zone = time.UTC
	}
	return clock{zone, ahead.Milliseconds(), behind.Milliseconds()}, nil
}

// doubt says why a time is not believed, empty if it is. The words go to a
// person who wonders about the time of a reading.
func (c *clock) doubt(ms, received int64) string {
	switch {
	case 0 <= ms && ms < 365*24*60*60*1000:
		return "its time is in 1970, receive time used"
	case ms < earliest:
		return "its time is before 2015, receive time used"
	case ms > received+c.ahead:
		return "its time is too far ahead, receive time used"
	case ms < received-c.behind:
		return "its time is too far in the past, receive time used"
	}
	return ""
}

// maxTime is the longest text that is tried as a time, in bytes.
const maxTime = 64

const malformedTime = "its time cannot be read, receive time used"

// parse reads a time in ms: a number of seconds, ms, µs or ns since 1970, told
// apart by magnitude, or a date and time. What is finer than a ms is cut off.
// It has no side effect and allocates nothing. received decides between the
// two meanings of a local time in the hour that comes twice.
func (c *clock) parse(text []byte, received int64) (ms int64, ok bool) {
	if len(text) > maxTime {
		return 0, false
	}
	if ms, zoned, ok := parseDate(text); ok {
		if zoned {
			return ms, true
		}
		return c.local(ms, received), true
	}
	return parseEpoch(text)
}

// parseEpoch reads a number. Integers never pass through a float64, which
// cannot hold nanoseconds.
func parseEpoch(text []byte) (ms int64, ok bool) {
	num, digits := text, 0
	if len(num) > 0 && num[0] == '-' {
		num = num[1:]
	}
	for digits < len(num) && isDigit(num[digits]) {
		digits++
	}
	if digits == 0 || digits > 19 {
		return 0, false
	}
	whole, err := strconv.ParseInt(string(text[:len(text)-len(num)+digits]), 10, 64)
	if err != nil {
		return 0, false
	}
	rest := num[digits:]
	if len(rest) == 0 {
		return epochMillis(whole), true
	}
	if rest[0] == '.' && len(rest) > 1 && allDigits(rest[1:]) {
		if -secondsBelow < whole && whole < secondsBelow && text[0] != '-' {
			return whole*1000 + fraction(rest[1:]), true
		}
		return epochMillis(whole), true
	}
	// What is left is an exponent, as ArduinoJson and SenML write large numbers.
	v, ok := parseDecimal(text)
	if !ok || math.Abs(v) >= 1<<63 {
		return 0, false
	}
	if math.Abs(v) < secondsBelow {
		return int64(math.Floor(math.Round(v*1e6) / 1e3)), true
	}
	return epochMillis(int64(v)), true
}

// Below these magnitudes a number is of seconds, ms and µs. In each unit the
// years from 1973 to 5138 lie between, so no time that is believed is
// ambiguous.
const (
	secondsBelow = 1e11
	millisBelow  = 1e14
	microsBelow  = 1e17
)

func epochMillis(n int64) int64 {
	switch {
	case -secondsBelow < n && n < secondsBelow:
		return n * 1000
	case -millisBelow < n && n < millisBelow:
		return n
	case -microsBelow < n && n < microsBelow:
		return floorDiv(n, 1000)
	}
	return floorDiv(n, 1000000)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// fraction is the ms of the digits behind the point of a number of seconds.
// It rounds to µs before it cuts: a sender that keeps seconds in a float64
// means .123 when it prints .122999907.
func fraction(digits []byte) int64 {
	us := int64(0)
	for i := range 6 {
		us *= 10
		if i < len(digits) {
			us += int64(digits[i] - '0')
		}
	}
	if len(digits) > 6 && digits[6] >= '5' {
		us++
	}
	return us / 1000
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// parseDate reads RFC 3339 and what devices make of it: a blank or "_" for the
// "T", slashes or points in the date, a comma before the fraction, no seconds, an offset
// without a colon or minutes, or no zone at all. Without one ms is the time on
// the wall, as if it were UTC.
func parseDate(b []byte) (ms int64, zoned, ok bool) {
	// 2006-01-02T15:04
	if len(b) < 16 || b[4] != b[7] || b[4] != '-' && b[4] != '/' && b[4] != '.' || b[13] != ':' {
		return 0, false, false
	}
	if b[10] != 'T' && b[10] != 't' && b[10] != ' ' && b[10] != '_' {
		return 0, false, false
	}
	year, month, day := two(b, 0)*100+two(b, 2), two(b, 5), two(b, 8)
	hour, minute, second := two(b, 11), two(b, 14), 0
	// two gives a large negative number for what is no digit.
	if year < 0 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour < 0 || hour > 23 || minute < 0 || minute > 59 {
		return 0, false, false
	}
	rest := b[16:]
	if len(rest) >= 3 && rest[0] == ':' {
		second, rest = two(rest, 1), rest[3:]
		if second < 0 || second > 59 {
			return 0, false, false
		}
	}
	ms = (int64(daysFrom1970(year, month, day))*86400 + int64(hour*3600+minute*60+second)) * 1000
	if len(b) > 19 && len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') {
		n, scale := 1, int64(100)
		for ; n < len(rest) && isDigit(rest[n]); n++ {
			ms += int64(rest[n]-'0') * scale
			scale /= 10
		}
		if n == 1 {
			return 0, false, false
		}
		rest = rest[n:]
	}
	if len(rest) == 0 {
		return ms, false, true
	}
	offset, ok := parseOffset(rest)
	return ms - offset, true, ok
}

// parseOffset reads Z, ±hh:mm, ±hhmm and ±hh.
func parseOffset(b []byte) (ms int64, ok bool) {
	if len(b) > 1 && b[0] == ' ' {
		b = b[1:]
	}
	switch string(b) {
	case "Z", "z", "UTC", "GMT":
		return 0, true
	}
	if len(b) < 3 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, minutes := two(b, 1), 0
	switch {
	case len(b) == 5:
		minutes = two(b, 3)
	case len(b) == 6 && b[3] == ':':
		minutes = two(b, 4)
	case len(b) != 3:
		return 0, false
	}
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	ms = int64(hours*60+minutes) * 60000
	if b[0] == '-' {
		ms = -ms
	}
	return ms, true
}

// two is the number of the two digits at b[i], far below zero if they are none.
func two(b []byte, i int) int {
	hi, lo := b[i]-'0', b[i+1]-'0'
	if hi > 9 || lo > 9 {
		return -1000000
	}
	return int(hi)*10 + int(lo)
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysFrom1970 counts days in the Gregorian calendar, in years that begin in
// March, so that the leap day is the last of its year.
func daysFrom1970(year, month, day int) int {
	if month <= 2 {
		year--
	}
	year += 400 // so that nothing below is negative
	dayOfYear := (153*((month+9)%12)+2)/5 + day - 1
	return year*365 + year/4 - year/100 + year/400 + dayOfYear - 146097 - 719468
}

// local is the instant at which the clocks of the zone show wall. A time that
// they show twice is the one nearer to the receive time. A time that they skip
// is read with the offset from before the change, as a clock that missed the
// change would show it.
func (c *clock) local(wall, received int64) int64 {
	if c.zone == time.UTC {
		return wall
	}
	// Offsets are within 15 hours, and no zone changes twice in two days.
	const day = 24 * 60 * 60 * 1000
	before, after := c.offset(wall-day), c.offset(wall+day)
	first, second := wall-before, wall-after
	firstOK, secondOK := c.offset(first) == before, c.offset(second) == after
	switch {
	case firstOK && secondOK && distance(second, received) < distance(first, received):
		return second
	case firstOK || !secondOK:
		return first
	}
	return second
}

func (c *clock) offset(ms int64) int64 {
	_, seconds := time.UnixMilli(ms).In(c.zone).Zone()
	return int64(seconds) * 1000
}

func distance(a, b int64) int64 {
	if a < b {
		return b - a
	}
	return a - b
}
