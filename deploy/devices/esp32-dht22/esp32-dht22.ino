// ESP32 + DHT22 for gudang: measures every 10 s, sends each reading with its
// own time, and keeps what it measures while Wi-Fi or the broker are away.
//
// Libraries, from the Arduino library manager:
//   MQTT by Joël Gähwiler (256dpi), 2.5 or later: publish() with QoS 1 waits
//     for the acknowledgement. PubSubClient cannot: it only sends QoS 0.
//   DHT sensor library by Adafruit, 1.4 or later
// Board: esp32 by Espressif, 2.x or 3.x.
//
// Wiring: the sensor's data pin to DHT_PIN, with 4.7 to 10 kΩ to 3.3 V.

#include <DHT.h>
#include <MQTT.h>
#include <WiFi.h>
#include <esp_task_wdt.h>
#include <esp_timer.h>
#include <sys/time.h>

#include "config.h"  // copy config.example.h
#include "readings.h"

#ifdef MQTT_CA_CERT
#include <WiFiClientSecure.h>
WiFiClientSecure net;
#else
WiFiClient net;
#endif

const uint32_t WATCHDOG_S = 60;          // a loop that hangs longer restarts the board
const uint32_t WIFI_RETRY_MS = 30000;    // without Wi-Fi for so long: begin anew
const uint32_t MQTT_RETRY_MS = 5000;     // pause after a failed connect
const int MQTT_TIMEOUT_MS = 10000;       // for an acknowledgement: gudang syncs to its disk first
const int SEND_AT_ONCE = 20;             // then look at sensor and watchdog again
const int64_t CLOCK_SET = 1735689600000; // 2025-01-01: before NTP the clock says 1970

DHT dht(DHT_PIN, DHT22);
MQTTClient mqtt(512);
struct readings pending;
bool clockSet = false;

int64_t uptimeMs() { return esp_timer_get_time() / 1000; }  // millis() begins anew after 49 days

int64_t clockMs() {
  struct timeval now;
  gettimeofday(&now, nullptr);
  return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

void startWatchdog() {
#if ESP_ARDUINO_VERSION_MAJOR >= 3
  esp_task_wdt_config_t config = {};
  config.timeout_ms = WATCHDOG_S * 1000;
  config.trigger_panic = true;
  if (esp_task_wdt_reconfigure(&config) != ESP_OK) esp_task_wdt_init(&config);
#else
  esp_task_wdt_init(WATCHDOG_S, true);
#endif
  esp_task_wdt_add(nullptr);
}

// keepWiFi begins anew when the connection does not come back by itself. It
// never waits: measuring goes on.
void keepWiFi() {
  static uint32_t since = 0;
  if (WiFi.status() == WL_CONNECTED) {
    since = millis();
  } else if (millis() - since > WIFI_RETRY_MS) {
    since = millis();
    WiFi.disconnect();
    WiFi.begin(WIFI_SSID, WIFI_PASSWORD);
  }
}

// keepClock notices when NTP has set the clock, and gives the readings from
// before that their times.
void keepClock() {
  if (clockSet || clockMs() < CLOCK_SET) return;
  clockSet = true;
  readings_clock(&pending, clockMs() - uptimeMs());
  Serial.println("clock set");
}

void keepMQTT() {
  static uint32_t tried = 0;
  mqtt.loop();
  if (mqtt.connected() || WiFi.status() != WL_CONNECTED || (tried != 0 && millis() - tried < MQTT_RETRY_MS)) return;
  if (!mqtt.connect(SENSOR_ID, MQTT_USERNAME, MQTT_PASSWORD)) {
    Serial.printf("MQTT: error %d, answer %d\n", (int)mqtt.lastError(), (int)mqtt.returnCode());
  }
  tried = millis();
}

// measure reads the sensor when it is time to. The times are multiples of the
// interval since the start, so that a slow loop does not shift them.
void measure() {
  static int64_t next = 0;
  int64_t now = uptimeMs();
  if (now < next) return;
  next = (now / INTERVAL_MS + 1) * INTERVAL_MS;
  float humidity = dht.readHumidity();
  float temperature = dht.readTemperature();
  int64_t at = clockSet ? clockMs() : readings_uptime(now);
  if (!isfinite(temperature) && !isfinite(humidity)) Serial.println("the DHT22 does not answer");
  readings_add(&pending, at, temperature, humidity);  // skips what is NaN
}

// sendPending sends the oldest readings first. One that is not acknowledged is sent
// again after the next connect: it has its own time, so that gudang stores it
// once. For readings without a real time it waits for the clock.
void sendPending() {
  char json[160];
  for (int i = 0; i < SEND_AT_ONCE && clockSet && mqtt.connected(); i++) {
    const struct reading *oldest = readings_oldest(&pending);
    if (oldest == nullptr) return;
    if (!readings_json(oldest, SENSOR_ID, json, sizeof json)) {
      readings_sent(&pending);  // SENSOR_ID is too long: it would never fit
      continue;
    }
    if (!mqtt.publish(TOPIC, json, false, 1)) return;
    readings_sent(&pending);
    esp_task_wdt_reset();
  }
}

void report() {
  static uint32_t last = 0;
  if (millis() - last < 60000) return;
  last = millis();
  Serial.printf("waiting %d, lost %u, Wi-Fi %d dBm\n", pending.count, (unsigned)pending.lost, (int)WiFi.RSSI());
}

void setup() {
  Serial.begin(115200);
  startWatchdog();
  dht.begin();
  WiFi.mode(WIFI_STA);
  WiFi.setAutoReconnect(true);
  WiFi.begin(WIFI_SSID, WIFI_PASSWORD);
  configTime(0, 0, NTP_SERVER);  // UTC: the payload has ms since 1970, which know no zone
#ifdef MQTT_CA_CERT
  net.setCACert(MQTT_CA_CERT);
#endif
  mqtt.begin(MQTT_HOST, MQTT_PORT, net);
  mqtt.setOptions(30, true, MQTT_TIMEOUT_MS);  // keep-alive in s, clean session
  mqtt.setWill("warehouse/" SENSOR_ID "/status", "offline", true, 1);
}

void loop() {
  esp_task_wdt_reset();
  keepWiFi();
  keepClock();
  measure();
  keepMQTT();
  sendPending();
  report();
  delay(10);
}
