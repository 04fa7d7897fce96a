// Package chaos breaks the real program in every way that its surroundings
// can, under load, and asks ingest verify whether each reading is stored once.
// It has tests and no code of its own.
//
// A run is drawn from its seed: the store, the broker and their settings, a
// fleet, and a schedule of faults. Each fault happens to one lane: a process,
// its network, its session at the broker, the store, the broker. Faults of one
// lane follow each other, those of different lanes overlap as they fall. When
// the schedule has ended everything is healed; then every reading whose
// message was acknowledged to the fleet must be stored exactly once, and
// nothing else. Also asked of each run: SIGTERM ends the process within 10 s
// with status 0, the log has no panic and no data race, memory stays bounded,
// and no connection is made again and again without a fault that explains it.
//
//	make chaos                      50 seeds of two minutes, two at a time, on SQLite
//	make chaos SEED=123             that schedule once more
//	make chaos DURATION=15s SEEDS=100 STORE=ferretdb
//
// The schedule is the same for one seed, one duration and one store; what it
// meets is not, since nothing here runs in step. A run that fails keeps its
// directory and names it: the schedule, what was done when, the logs of the
// service and the broker, the manifest, the store, what verify said.
//
// What a broker does not promise is left out: Mosquitto saves what it holds
// when it is told to stop, so it is restarted with SIGTERM, and only where
// persistence is on. Killed, or without persistence, it forgets messages that
// it acknowledged, and no consumer can make up for that. With MQTT_SHARE it is
// not restarted either: over a restart Mosquitto 2.0 forgets who shares a
// filter, and drops what comes before one of them has subscribed again.
//
// FerretDB is the MongoDB-speaking server. It loses concurrent updates, so the
// proxy before it lets one write at a time through. A service of which two
// instances run needs it, since the embedded store has one writer.
package chaos
