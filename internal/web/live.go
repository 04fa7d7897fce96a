package web

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"
	"unicode/utf8"

	"gudang/internal/reading"
)

const (
	livePath   = "/api/v1/changes"
	maxStreams = 64               // pages that listen at one time; others ask now and then
	livePeriod = time.Second      // how often a stream looks
	liveQuiet  = 15 * time.Second // without news, a sign of life
	liveWrite  = 10 * time.Second // for the client to take an event
)

// live tells a page when there is something new, as server-sent events. What
// it is, the page asks for: it is drawn in one place only.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	p, err := parseParams(r.URL.RawQuery, "sensor")
	if err != nil {
		return err
	}
	if id := p["sensor"]; len(id) > reading.MaxSensorID || !utf8.ValidString(id) {
		return errSensor
	}
	select {
	case s.site.streams <- struct{}{}:
		defer func() { <-s.site.streams }()
	default:
		return errBusy
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers would defeat it
	if r.Method == http.MethodHead {
		return nil
	}
	s.stream(w, r, p["sensor"])
	return nil
}

// stream writes events until the client is gone or the server stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, sensor string) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{}) // the request is read: its deadline would end the stream
	write := func(text string) bool {
		control.SetWriteDeadline(time.Now().Add(liveWrite)) // what can't, has no deadline
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	tick := time.NewTicker(livePeriod)
	defer tick.Stop()
	last, spoke := s.print(r.Context(), sensor), time.Now()
	ok := write(fmt.Sprintf("retry: 3000\nevent: hello\ndata: %x\n\n", last))
	for ok {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.site.stopping:
			return
		}
		if now := s.print(r.Context(), sensor); now != last {
			last, spoke = now, time.Now()
			ok = write(fmt.Sprintf("event: change\ndata: %x\n\n", now))
		} else if time.Since(spoke) >= liveQuiet {
			spoke = time.Now()
			ok = write(": still here\n\n")
		}
	}
}

// print is another number when a page, of the sensor or of the fleet, would
// show something else.
func (s *Server) print(ctx context.Context, sensor string) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	st := s.status(ctx)
	if sensor == "" {
		fmt.Fprint(&h, st.Rate, st.Fill, st.Lag, st.Parts)
		if snap, err := s.site.fleet.get(ctx); snap != nil {
			maphash.WriteComparable(&h, snap.print)
			maphash.WriteComparable(&h, err != nil)
		}
		return h.Sum64()
	}
	maphash.WriteComparable(&h, st.Bad)
	leave, err := s.gate.enter(ctx)
	if err != nil {
		return h.Sum64()
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.queryTimeout)
	defer cancel()
	if found, err := s.reader.Sensor(ctx, sensor); err == nil {
		row := newRow(&found, map[string]string{})
		maphash.WriteComparable(&h, row.print)
	}
	return h.Sum64()
}

// watch keeps what the pages show of the service's own state, until ctx ends.
// Then the streams end, so that the stop need not wait for them.
func (p *site) watch(ctx context.Context) {
	p.pulse.watch(ctx)
	close(p.stopping)
	p.fleet.close(stopTimeout)
}
