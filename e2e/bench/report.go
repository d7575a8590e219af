package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// figure is one line of the table.
type figure struct {
	name, unit   string
	limit, agent float64 // NaN if there is no comparison
	ratios       sample  // one of each round
	target       string
	met          bool // valid if there is a target
}

// report collects the results.
type report struct {
	lab     *lab
	figures []figure
	split   []splitRow
	latency []point // by the number of parallel claims
	scale   []scaleRow
	notes   []string
}

// splitRow is the stages of one subject.
type splitRow struct {
	name string
	all  []stages
}

func newReport(l *lab) *report { return &report{lab: l} }

// add adds a figure whose ratio is the median of its rounds.
func (r *report) add(f figure) { r.figures = append(r.figures, f) }

// versus adds a figure with a number of each round, of the agent and peers against the limit.
func (r *report) versus(c *contest, name, unit string, target string, met func(ratio float64) bool,
	of func(served) float64) {
	limit := c.each("limit", of)
	for _, who := range c.names[1:] {
		mine := c.each(who, of)
		f := figure{name: name + "." + c.shape, unit: unit, limit: limit.median(), agent: mine.median(),
			ratios: mine.by(limit)}
		if who == "agent" {
			f.target, f.met = target, met(f.ratios.median())
		} else {
			f.name += "." + who
		}
		r.add(f)
	}
}

// serve adds the figures of one contest.
func (r *report) serve(c *contest) {
	atLeast := func(bound float64) func(float64) bool { return func(x float64) bool { return x >= bound } }
	atMost := func(bound float64) func(float64) bool { return func(x float64) bool { return x <= bound } }
	l := r.lab
	if l.wants("burst") {
		r.versus(c, "burst", "claims/s", ">= 0.90", atLeast(0.90), func(s served) float64 { return s.burst.rate() })
	}
	if l.wants("idle") {
		r.versus(c, "idle", "ms", "<= 1.15", atMost(1.15), func(s served) float64 { return s.idle.each((*life).took).at(50) })
	}
	if l.wants("delete") {
		r.versus(c, "delete", "deletes/s", ">= 0.90", atLeast(0.90), func(s served) float64 { return s.burst.deletes() })
	}
	if l.wants("share") {
		r.share(c, "share-p50", 50, 3)
		r.share(c, "share-p99", 99, 15)
	}
	for _, who := range c.names {
		for _, kind := range []string{"idle", "burst"} {
			row := splitRow{name: c.shape + " " + who + ", " + kind}
			for _, one := range c.rounds[who] {
				if kind == "idle" {
					row.all = append(row.all, one.idle.stages...)
				} else {
					row.all = append(row.all, one.burst.stages...)
				}
			}
			if len(row.all) > 0 {
				r.split = append(r.split, row)
			}
		}
	}
}

// share adds a percentile of the provisioner's own share of idle claims, over all rounds; its
// target is on the difference.
func (r *report) share(c *contest, name string, percentile, more float64) {
	own := func(s served) sample { return s.idle.each((*life).share) }
	limit := c.pooled("limit", own).at(percentile)
	for _, who := range c.names[1:] {
		mine := c.pooled(who, own).at(percentile)
		f := figure{name: name + "." + c.shape, unit: "ms", limit: limit, agent: mine, ratios: sample{mine / limit}}
		if who == "agent" {
			f.target, f.met = fmt.Sprintf("limit + %.0f ms", more), mine-limit <= more
		} else {
			f.name += "." + who
		}
		r.add(f)
	}
}

// print writes the tables, and the requested files.
func (r *report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n", r.lab.conditions())
	if len(r.figures) > 0 {
		fmt.Fprintf(w, "| figure | limit | agent | ratio (lowest to highest) | target | verdict "+
			"|\n|---|---|---|---|---|---|\n")
	}
	for _, f := range r.figures {
		fmt.Fprintf(w, "| %s, %s | %s | %s | %s | %s | %s |\n", f.name, f.unit, number(f.limit), number(f.agent), f.ratio(),
			f.target, f.verdict())
	}
	r.printSplit(w)
	r.printScale(w)
	for _, n := range r.notes {
		fmt.Fprintf(w, "\n%s\n", n)
	}
	return errors.Join(r.plots(w), r.writeJSON())
}

func (f figure) ratio() string {
	if len(f.ratios) == 0 {
		return ""
	}
	words := number(f.ratios.median())
	if len(f.ratios) > 1 {
		words += fmt.Sprintf(" (%s to %s)", number(f.ratios.at(0)), number(f.ratios.at(100)))
	}
	return words
}

func (f figure) verdict() string {
	switch {
	case f.target == "":
		return ""
	case f.met:
		return "met"
	}
	return "missed"
}

func (r *report) printSplit(w io.Writer) {
	if len(r.split) == 0 {
		return
	}
	fmt.Fprintf(w, "\nWhere a claim's time goes, in ms, p50 / p99\n\n| | %s |\n|---%s|\n",
		strings.Join(stageTitles, " | "), strings.Repeat("|---", len(stageTitles)))
	for _, row := range r.split {
		cells := make([]sample, len(stageTitles))
		for _, s := range row.all {
			for i, v := range s.values() {
				cells[i] = append(cells[i], v)
			}
		}
		fmt.Fprintf(w, "| %s |", row.name)
		for _, c := range cells {
			fmt.Fprintf(w, " %s / %s |", number(c.at(50)), number(c.at(99)))
		}
		fmt.Fprintln(w)
	}
}

// number formats with about three digits; NaN is empty.
func number(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return ""
	case a >= 100 || x == math.Trunc(x) && a < 1e6:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// writeJSON writes one object, with the ratio of every figure by its name.
func (r *report) writeJSON() error {
	if r.lab.json == "" {
		return nil
	}
	ratios := map[string]float64{}
	for _, f := range r.figures {
		if m := f.ratios.median(); !math.IsNaN(m) && !math.IsInf(m, 0) {
			ratios[f.name] = math.Round(m*1000) / 1000
		}
	}
	data, err := json.MarshalIndent(ratios, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.lab.json, append(data, '\n'), 0o644)
}

// plots writes the plots as files, and a small one into the text.
func (r *report) plots(w io.Writer) error {
	var errs []error
	write := func(name string, p plot) {
		if len(p.points) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s", p.text())
		path := filepath.Join(r.lab.out, name)
		errs = append(errs, os.MkdirAll(r.lab.out, 0o755), os.WriteFile(path, []byte(p.svg()), 0o644))
		fmt.Fprintf(w, "\n%s\n", path)
	}
	write("bench.svg", plot{title: "Claim to Bound, p50 and p99", x: "claims at once", y: "ms", points: r.latency})
	write("bench-scale.svg", r.scalePlot())
	return errors.Join(errs...)
}
