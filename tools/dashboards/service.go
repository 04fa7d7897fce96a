package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// watcher is the Prometheus that scrapes the service.
const watcher = "gudang-prometheus"

// which picks the instances that are looked at.
const which = `{job="$job", instance=~"$instance"}`

func rate(metric string) string { return "rate(" + metric + which + "[$__rate_interval])" }

// quantile is that of a histogram, over all instances.
func quantile(q, metric string) string {
	return "histogram_quantile(" + q + ", sum by (le) (" + rate(metric+"_bucket") + "))"
}

func quantiles(metric string) []target {
	return []target{{quantile("0.5", metric), "median"}, {quantile("0.95", metric), "95 %"}, {quantile("0.99", metric), "99 %"}}
}

// service is the dashboard for whoever runs it.
func service() (dashboard.Dashboard, error) {
	d := board("gudang-service", "Gudang: service", "Is every reading stored, and how soon?", "now-3h", "30s").
		WithVariable(variable(watcher, "job", "Job", "label_values(gudang_build_info, job)")).
		WithVariable(variable(watcher, "instance", "Instance", `label_values(gudang_build_info{job="$job"}, instance)`).
			Multi(true).IncludeAll(true).AllValue(".*").Current(all()))
	glance(d)
	intake(d)
	storing(d)
	journal(d)
	embedded(d)
	process(d)
	return d.Build()
}

// all is the choice of everything.
func all() dashboard.VariableOption {
	text, value := "All", "$__all"
	return dashboard.VariableOption{Text: dashboard.StringOrArrayOfString{String: &text}, Value: dashboard.StringOrArrayOfString{String: &value}}
}

func glance(d *dashboard.DashboardBuilder) {
	const each = width / 8
	d.WithRow(dashboard.NewRowBuilder("At a glance")).
		WithPanel(number(watcher, "Stored", "New readings committed to the store.", "rowsps", each,
			target{"sum(" + rate("gudang_readings_stored_total") + ")", ""})).
		WithPanel(number(watcher, "Sensors", "Known to the service, of at most MAX_SENSORS.", "short", each,
			target{"max(gudang_sensors" + which + ")", ""})).
		WithPanel(number(watcher, "Lag", "From a reading's time to its commit; half of them are quicker.", "s", each,
			target{quantile("0.5", "gudang_store_lag_seconds"), ""}, from(120, "orange"), from(600, "red"))).
		WithPanel(number(watcher, "Bucket fill", "Readings in a bucket by those expected.", "percentunit", each,
			target{"sum(" + rate("gudang_bucket_fill_ratio_sum") + ") / max(" + rate("gudang_bucket_fill_ratio_count") + ")", ""}, below(0.5)...)).
		WithPanel(number(watcher, "Journal", "Of JOURNAL_MAX_BYTES, the fullest instance.", "percentunit", each,
			target{"max(gudang_journal_bytes" + which + " / gudang_journal_max_bytes" + which + ")", ""}, from(0.5, "orange"), from(0.8, "red"))).
		WithPanel(number(watcher, "Broker", "Instances with a session.", "short", each,
			target{"sum(gudang_mqtt_connected" + which + ")", ""}, below(1)...)).
		WithPanel(number(watcher, "Store", "Instances whose store takes writes.", "short", each,
			target{"sum(gudang_store_up" + which + ")", ""}, below(1)...)).
		WithPanel(number(watcher, "Alerts", "Those of deploy/prometheus that fire.", "short", each,
			target{`count(ALERTS{alertname=~"Gudang.+", alertstate="firing"}) or vector(0)`, ""}, from(1, "red")))
}

func intake(d *dashboard.DashboardBuilder) {
	d.WithRow(dashboard.NewRowBuilder("What comes in")).
		WithPanel(graph(watcher, "Messages by what they ended as", "Each is acknowledged then.", "reqps", width/3,
			target{"sum by (outcome) (rate(gudang_messages_total" + which + "[$__rate_interval]))", "{{outcome}}"})).
		WithPanel(graph(watcher, "Readings", "Received, new, there already, and come after their minute.", "rowsps", width/3,
			target{"sum(" + rate("gudang_readings_received_total") + ")", "received"},
			target{"sum(" + rate("gudang_readings_stored_total") + ")", "stored"},
			target{"sum(" + rate("gudang_readings_duplicate_total") + ")", "duplicate"},
			target{"sum(" + rate("gudang_readings_late_total") + ")", "late"})).
		WithPanel(graph(watcher, "Rejected", "By reason: docs/payloads.md says what each means.", "reqps", width/3,
			target{"sum by (reason) (" + rate("gudang_rejected_total") + ")", "{{reason}}"},
			target{"sum(" + rate("gudang_bad_clock_total") + ")", "time not believed"})).
		WithPanel(graph(watcher, "In hand", "Messages that are not acknowledged yet, and how many may be.", "short", width/3,
			target{"gudang_unacked_messages" + which, "{{instance}}"},
			target{"max(gudang_max_unacked_messages" + which + ")", "bound"})).
		WithPanel(graph(watcher, "Silence", "Since the last message.", "s", width/3,
			target{"time() - gudang_last_message_timestamp_seconds" + which, "{{instance}}"})).
		WithPanel(graph(watcher, "Connections made", "A line that never rests: two programs with one client id.", "short", width/3,
			target{"gudang_mqtt_connects_total" + which, "{{instance}}"}))
}

func storing(d *dashboard.DashboardBuilder) {
	d.WithRow(dashboard.NewRowBuilder("What is stored")).
		WithPanel(graph(watcher, "Lag", "From a reading's time to its commit.", "s", width/3, quantiles("gudang_store_lag_seconds")...)).
		WithPanel(graph(watcher, "Flushes take", "Until the store has committed them.", "s", width/3, quantiles("gudang_flush_duration_seconds")...)).
		WithPanel(graph(watcher, "Readings in a flush", "The slower the store, the larger.", "short", width/3,
			target{"sum(" + rate("gudang_flush_readings_sum") + ") / sum(" + rate("gudang_flush_readings_count") + ")", "mean"})).
		WithPanel(graph(watcher, "Writes by how the store answered", "Exists: the bucket had one of the readings. Failed: sent again.", "wps", width/3,
			target{"sum by (result) (" + rate("gudang_store_writes_total") + ")", "{{result}}"})).
		WithPanel(graph(watcher, "Bucket fill", "Readings in a bucket by those expected, once its span has passed.", "percentunit", width/3,
			quantiles("gudang_bucket_fill_ratio")[0], target{quantile("0.1", "gudang_bucket_fill_ratio"), "10 % have less"})).
		WithPanel(graph(watcher, "Buckets", "Open ones may still fill. Outliers have their readings stored one by one.", "short", width/3,
			target{"sum(gudang_open_buckets" + which + ")", "open"},
			target{"sum(increase(gudang_outlier_buckets_total" + which + "[1h]))", "outliers in an hour"}))
}

func journal(d *dashboard.DashboardBuilder) {
	d.WithRow(dashboard.NewRowBuilder("Journal")).
		WithPanel(graph(watcher, "Not in the store yet", "It grows while the store is away.", "bytes", width/3,
			target{"gudang_journal_bytes" + which, "{{instance}}"})).
		WithPanel(graph(watcher, "A sync takes", "Each acknowledgement waits for one.", "s", width/3, quantiles("gudang_journal_sync_duration_seconds")...)).
		WithPanel(graph(watcher, "Messages in a sync", "The slower the disk, the more.", "short", width/3,
			target{"sum(" + rate("gudang_journal_group_messages_sum") + ") / sum(" + rate("gudang_journal_group_messages_count") + ")", "mean"}))
}

func embedded(d *dashboard.DashboardBuilder) {
	d.WithRow(dashboard.NewRowBuilder("Broker inside, where it runs")).
		WithPanel(graph(watcher, "Clients", "Connected to it.", "short", width/3,
			target{"gudang_broker_connections" + which, "{{instance}}"})).
		WithPanel(graph(watcher, "Messages", "Received, and not delivered to other subscribers, who are too slow or away.", "reqps", width/3,
			target{"sum(" + rate("gudang_broker_received_total") + ")", "received"},
			target{"sum(" + rate("gudang_broker_dropped_total") + ")", "dropped"},
			target{"sum(" + rate("gudang_broker_unretained_total") + ")", "not retained"})).
		WithPanel(graph(watcher, "Waiting", "Publishers that wait for room, and messages that subscribers have yet to acknowledge.", "short", width/3,
			target{"sum(gudang_broker_waiting_publishers" + which + ")", "publishers"},
			target{"sum(gudang_broker_unacked_messages" + which + ")", "messages"}))
}

func process(d *dashboard.DashboardBuilder) {
	d.WithRow(dashboard.NewRowBuilder("HTTP and process")).
		WithPanel(graph(watcher, "Requests by status", "401 is a wrong token or none; 499 a client that did not wait.", "reqps", width/4,
			target{"sum by (code) (" + rate("gudang_http_requests_total") + ")", "{{code}}"})).
		WithPanel(graph(watcher, "An answer takes", "95 of 100 less, by path.", "s", width/4,
			target{"histogram_quantile(0.95, sum by (le, path) (" + rate("gudang_http_request_duration_seconds_bucket") + "))", "{{path}}"})).
		WithPanel(graph(watcher, "Memory", "Resident, and in use by Go.", "bytes", width/4,
			target{"process_resident_memory_bytes" + which, "{{instance}}"},
			target{"go_memstats_heap_inuse_bytes" + which, "{{instance}} heap"})).
		WithPanel(graph(watcher, "Cores", "That it uses.", "short", width/4,
			target{"rate(process_cpu_seconds_total" + which + "[$__rate_interval])", "{{instance}}"}))
}
