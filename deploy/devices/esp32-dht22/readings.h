// What the sketch keeps and sends, without anything of the board, so that it
// can be compiled and tested on any machine (deploy/devices/devices_test.go).

#ifndef READINGS_H
#define READINGS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// How many readings are kept while they cannot be sent: at one in 10 s these
// are eleven hours, in 64 kB. What the ESP32 has beside Wi-Fi and TLS is not
// much more. They are lost at a reset.
#ifndef READINGS_KEPT
#define READINGS_KEPT 4096
#endif

struct reading {
  int64_t at;  // ms since 1970; below zero: ms since the start, see readings_clock
  float temperature, humidity;  // NAN: none
};

struct readings {
  struct reading kept[READINGS_KEPT];
  int first, count;
  uint32_t lost;  // how many were overwritten
};

// Before the clock is set a reading is kept at -1 - (ms since the start). All
// real times are above zero.
static inline int64_t readings_uptime(int64_t ms) { return -1 - ms; }

// readings_add keeps a reading. A full buffer gives up its oldest, and counts
// it. A failed measurement is no reading.
static inline void readings_add(struct readings *r, int64_t at, float temperature, float humidity) {
  if (!isfinite(temperature) && !isfinite(humidity)) return;
  if (r->count == READINGS_KEPT) {
    r->first = (r->first + 1) % READINGS_KEPT;
    r->count--;
    r->lost++;
  }
  struct reading *n = &r->kept[(r->first + r->count) % READINGS_KEPT];
  n->at = at;
  n->temperature = temperature;
  n->humidity = humidity;
  r->count++;
}

// readings_clock gives the readings from before the clock was set their real
// times: started is the time of the start, in ms since 1970. It is done once
// for each, so that a reading that is sent twice has one time, by which gudang
// knows it again.
static inline void readings_clock(struct readings *r, int64_t started) {
  for (int i = 0; i < r->count; i++) {
    struct reading *n = &r->kept[(r->first + i) % READINGS_KEPT];
    if (n->at < 0) n->at = started - 1 - n->at;
  }
}

// readings_oldest is the reading to send next, NULL if there is none.
static inline const struct reading *readings_oldest(const struct readings *r) {
  return r->count > 0 ? &r->kept[r->first] : NULL;
}

// readings_sent forgets the oldest, which the broker has acknowledged.
static inline void readings_sent(struct readings *r) {
  if (r->count == 0) return;
  r->first = (r->first + 1) % READINGS_KEPT;
  r->count--;
}

// readings_json writes {"sensorId":"S-01","time":1773480413000,
// "temperature":26.4,"humidity":61.0}. A DHT22 has tenths. It returns false if
// out is too small. The id must hold no quotes and no backslashes.
static inline bool readings_json(const struct reading *n, const char *id, char *out, size_t size) {
  char t[32] = "", h[32] = "";
  if (isfinite(n->temperature)) snprintf(t, sizeof t, ",\"temperature\":%.1f", (double)n->temperature);
  if (isfinite(n->humidity)) snprintf(h, sizeof h, ",\"humidity\":%.1f", (double)n->humidity);
  int length = snprintf(out, size, "{\"sensorId\":\"%s\",\"time\":%lld%s%s}", id, (long long)n->at, t, h);
  return length > 0 && (size_t)length < size;
}

#endif
