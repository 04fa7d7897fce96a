package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// readings is gudang itself, which answers PromQL from what it has stored.
const readings = "gudang-readings"

const (
	one     = `${metric}{sensor="$sensor"}`
	summary = `{sensor="$sensor", span="$span"}`
)

// fleet is the dashboard for whoever wants to know how warm it is.
func fleet() (dashboard.Dashboard, error) {
	d := board("gudang-fleet", "Gudang: fleet", "What the sensors measured, from what is stored.", "now-6h", "1m").
		WithVariable(variable(readings, "metric", "Metric", "label_values(__name__)").Regex("/^[^:]+$/")).
		WithVariable(variable(readings, "sensor", "Sensor", "label_values(${metric}, sensor)")).
		WithVariable(variable(readings, "span", "Summaries of", "label_values(${metric}:avg, span)").
			Description("What one summary covers. Over weeks take the longest: it reads the least."))
	sensor(d)
	everyone(d)
	return d.Build()
}

func sensor(d *dashboard.DashboardBuilder) {
	const each = width / 6
	d.WithRow(dashboard.NewRowBuilder("$sensor: $metric")).
		WithPanel(band()).
		WithPanel(number(readings, "Last value", "None: silent for five minutes.", "short", each, target{one, ""})).
		WithPanel(number(readings, "Age", "Of the last value.", "s", each, target{"time() - timestamp(" + one + ")", ""}, from(60, "orange"), from(240, "red"))).
		WithPanel(total(readings, "Lowest", "In the range shown.", "short", each, target{over("min", "$__range"), ""})).
		WithPanel(total(readings, "Mean", "In the range shown.", "short", each, target{mean("$__range"), ""})).
		WithPanel(total(readings, "Highest", "In the range shown.", "short", each, target{over("max", "$__range"), ""})).
		WithPanel(total(readings, "Readings", "In the range shown.", "short", each, target{"sum_over_time(${metric}:count" + summary + "[$__range])", ""})).
		WithPanel(graph(readings, "Each reading", "As it was sent, gaps included.", "short", width, target{one, "{{sensor}}"}))
}

// band shows the extremes of each point's time as an area about the mean. A
// point covers at least one summary, so that none is left out between two.
func band() *timeseries.PanelBuilder {
	p := graph(readings, "Minimum, average and maximum", "From the summaries of the buckets, without reading the readings.", "short", width).
		Height(height+height/2).
		OverrideByName("max", []dashboard.DynamicConfigValue{
			{Id: "custom.fillBelowTo", Value: "min"}, {Id: "custom.lineWidth", Value: 0}, {Id: "custom.fillOpacity", Value: 20},
		}).
		OverrideByName("min", []dashboard.DynamicConfigValue{{Id: "custom.lineWidth", Value: 0}, {Id: "custom.fillOpacity", Value: 0}}).
		OverrideByName("avg", []dashboard.DynamicConfigValue{{Id: "custom.lineWidth", Value: 2}, {Id: "custom.fillOpacity", Value: 0}})
	for i, t := range []target{{over("max", "$__interval"), "max"}, {mean("$__interval"), "avg"}, {over("min", "$__interval"), "min"}} {
		p.WithTarget(t.rng().RefId(refID(i)).Interval("$span"))
	}
	return p
}

// over is the least or the greatest reading in a window, from the summaries.
func over(of, window string) string {
	return of + "_over_time(${metric}:" + of + summary + "[" + window + "])"
}

// mean is of all readings in a window: an average of averages would not be,
// since buckets hold more and less.
func mean(window string) string {
	return "sum_over_time(${metric}:sum" + summary + "[" + window + "]) / sum_over_time(${metric}:count" + summary + "[" + window + "])"
}

// silent looks once an hour of the day for each sensor. A window over all of it
// would read every bucket that the fleet has filled since yesterday.
const silent = "(time() - max_over_time(timestamp(${metric})[1d:1h])) unless on (sensor) ${metric}"

// fewPoints is for panels over all sensors: each point costs a look at each.
const fewPoints = 60

func everyone(d *dashboard.DashboardBuilder) {
	d.WithRow(dashboard.NewRowBuilder("The fleet: $metric")).
		WithPanel(graph(readings, "Coldest, mean and warmest", "Over all sensors.", "short", width/2,
			target{"max(${metric})", "max"}, target{"avg(${metric})", "avg"}, target{"min(${metric})", "min"}).MaxDataPoints(fewPoints)).
		WithPanel(graph(readings, "Sensors", "That have sent something in the last five minutes.", "short", width/2,
			target{"count(${metric})", "sensors"}).MaxDataPoints(fewPoints)).
		WithPanel(list("Last values", "Of every sensor that is not silent.", map[string]string{"Value #A": "Value", "Value #B": "Age"},
			"${metric}", "time() - timestamp(${metric})")).
		WithPanel(list("Silent", "Have sent something within a day, and nothing in the last five minutes. For how long, to the hour.", map[string]string{"Value": "Age"},
			silent))
}

// list is a table with a row for each sensor, and a column for each query.
func list(title, what string, columns map[string]string, exprs ...string) *table.PanelBuilder {
	columns["sensor"] = "Sensor"
	p := table.NewPanelBuilder().Title(title).Description(what).Datasource(source(readings)).Span(width/2).Height(height*2).
		OverrideByName("Age", []dashboard.DynamicConfigValue{{Id: "unit", Value: "s"}}).
		NoValue("none")
	for i, expr := range exprs {
		p.WithTarget(target{expr: expr}.instant().RefId(refID(i)).Format(prometheus.PromQueryFormatTable))
	}
	return p.
		WithTransformation(dashboard.DataTransformerConfig{Id: "joinByField", Options: map[string]any{"byField": "sensor", "mode": "outer"}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true, "Time 1": true, "Time 2": true, "__name__": true, "__name__ 1": true, "__name__ 2": true},
			"renameByName":  columns,
		}})
}
