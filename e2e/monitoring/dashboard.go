package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Panel is a panel of a dashboard.
type Panel struct {
	Title, Type string
	Queries     []Query
	Unit        string
}

// Query is an expression of a panel, with its variables replaced, and the template of its legend.
type Query struct {
	Expr, Legend string
}

// variables are those of the dashboard: everything is chosen, and rates are those of half a minute.
var variables = strings.NewReplacer("$node", ".*", "$pool", ".*", "$__rate_interval", "30s")

// Panels returns the panels of a Grafana dashboard that have queries.
func Panels(file string) (all []Panel, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr, LegendFormat string }
			FieldConfig struct{ Defaults struct{ Unit string } }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range dashboard.Panels {
		panel := Panel{Title: p.Title, Type: p.Type, Unit: p.FieldConfig.Defaults.Unit}
		for _, t := range p.Targets {
			panel.Queries = append(panel.Queries, Query{variables.Replace(t.Expr), t.LegendFormat})
		}
		if len(panel.Queries) > 0 {
			all = append(all, panel)
		}
	}
	return all, nil
}

// Text returns the legend of a series: the template with its labels.
func (q Query) Text(labels map[string]string) string {
	text := q.Legend
	for name, value := range labels {
		text = strings.ReplaceAll(text, "{{"+name+"}}", value)
	}
	return text
}
