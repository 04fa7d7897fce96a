package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// The grid is 24 wide.
const (
	width  = 24
	height = 8
)

// source is one of the provisioned data sources, by its uid there.
func source(uid string) common.DataSourceRef {
	kind := "prometheus"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

// target is a query and how its series are called.
type target struct {
	expr, legend string
}

func (t target) rng() *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(t.expr).LegendFormat(t.legend).Range()
}

func (t target) instant() *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(t.expr).LegendFormat(t.legend).Instant()
}

// graph is a panel of lines.
func graph(uid, title, what, unit string, span uint32, targets ...target) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(title).Description(what).Datasource(source(uid)).Unit(unit).Span(span).Height(height).
		LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, t := range targets {
		p.WithTarget(t.rng().RefId(refID(i)))
	}
	return p
}

// number is a panel of the newest value of a line, green until the first of the
// steps.
func number(uid, title, what, unit string, span uint32, t target, steps ...dashboard.Threshold) *stat.PanelBuilder {
	return value(uid, title, what, unit, span, steps...).GraphMode(common.BigValueGraphModeArea).WithTarget(t.rng().RefId("A"))
}

// total is a panel of one value that is made of the whole range shown. It is
// asked for once, and not for each point.
func total(uid, title, what, unit string, span uint32, t target) *stat.PanelBuilder {
	return value(uid, title, what, unit, span).GraphMode(common.BigValueGraphModeNone).WithTarget(t.instant().RefId("A"))
}

func value(uid, title, what, unit string, span uint32, steps ...dashboard.Threshold) *stat.PanelBuilder {
	all := append([]dashboard.Threshold{{Color: "green"}}, steps...)
	return stat.NewPanelBuilder().Title(title).Description(what).Datasource(source(uid)).Unit(unit).Span(span).Height(height / 2).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(all)).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		ColorMode(common.BigValueColorModeValue)
}

func refID(i int) string { return string(rune('A' + i)) }

// from is a threshold: what is at or above it has the colour.
func from(value float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: color}
}

// below is a threshold on a value that should be high: red until it is reached.
func below(value float64) []dashboard.Threshold {
	least := 0.0
	return []dashboard.Threshold{{Value: &least, Color: "red"}, {Value: &value, Color: "green"}}
}

// variable is a choice that a query offers.
func variable(uid, name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source(uid)).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": query, "refId": "variable-" + name}}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

// board is what both dashboards have in common.
func board(uid, title, what, since, refresh string) *dashboard.DashboardBuilder {
	return dashboard.NewDashboardBuilder(title).Uid(uid).Description(what).Tags([]string{"gudang"}).
		Time(since, "now").Refresh(refresh).Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Gudang").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"gudang"}).AsDropdown(false).KeepTime(true))
}
