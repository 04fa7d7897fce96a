// Copy this file to config.h and fill it in. config.h holds passwords: it
// belongs in no repository.

#define SENSOR_ID "S-01"  // one of its own for every board; also the MQTT client id
#define TOPIC "warehouse/" SENSOR_ID "/reading"  // gudang's default, MQTT_TOPICS=warehouse/{sensor}/reading

#define WIFI_SSID "your network"
#define WIFI_PASSWORD "its password"

#define MQTT_HOST "192.0.2.10"  // where gudang or its broker listens
#define MQTT_PORT 1883
#define MQTT_USERNAME "fleet"
#define MQTT_PASSWORD "choose-one"

// For TLS (port 8883): the certificate of who signed the broker's.
// #define MQTT_CA_CERT "-----BEGIN CERTIFICATE-----\n..."

// Without a clock nothing is sent. Where there is no internet the gateway can
// be the time server: chrony or ntpd with a line that allows the network.
#define NTP_SERVER "pool.ntp.org"

#define DHT_PIN 4
#define INTERVAL_MS 10000  // a DHT22 can be read every 2 s; READING_INTERVAL of gudang
