package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// stages are the parts of one claim's time, in milliseconds.
type stages struct {
	seen    float64 // from the request to create the claim until the provisioner may act
	queued  float64 // until a worker of the library has it
	durable float64 // until the volume is durable, with what the library does before it
	saved   float64 // until the API server has the PV
	bound   float64 // until the claim is bound
}

// stageTitles and values are in the same order.
var stageTitles = []string{"claim may be acted on", "a worker has it", "directory durable", "PV saved", "Bound"}

func (s stages) values() []float64 { return []float64{s.seen, s.queued, s.durable, s.saved, s.bound} }

// stamps are the times in a program's log, by the claim's name, and of PVs by theirs.
type stamps struct {
	started, durable, saved map[string]time.Time
}

// logLine matches the library's lines about a claim at the verbosity of staged.
var logLine = regexp.MustCompile(`^I(\d{4} \d\d:\d\d:\d\d\.\d{6}) .*\] "(Started|Volume is provisioned|Volume saved)"(.*)$`)

var (
	claimField  = regexp.MustCompile(` PVC="` + namespace + `/([^"]+)"`)
	volumeField = regexp.MustCompile(` volume="([^"]+)"`)
)

// readStamps reads a log of the library. A program with another log has no stages.
func readStamps(path string) (stamps, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return stamps{}, err
	}
	return parseStamps(string(data), time.Now())
}

// parseStamps parses the lines; now has the year, which they omit.
func parseStamps(text string, now time.Time) (stamps, error) {
	s := stamps{map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}}
	for line := range strings.Lines(text) {
		m := logLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		at, err := time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprintf("%d %s", now.Year(), m[1]), now.Location())
		if err != nil {
			return s, fmt.Errorf("log line %q: %w", line, err)
		}
		into, field := s.started, claimField
		switch m[2] {
		case "Volume is provisioned":
			into = s.durable
		case "Volume saved":
			into, field = s.saved, volumeField
		}
		name := field.FindStringSubmatch(m[3])
		if name == nil {
			continue
		}
		// The last attempt counts; but the library starts again with every change of the claim, up
		// to its end.
		if _, again := s.durable[name[1]]; !again || m[2] != "Started" {
			into[name[1]] = at
		}
	}
	return s, nil
}

// stages returns those of the claims that are in the log.
func (s stamps) stages(all lives) []stages {
	var out []stages
	ms := func(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()*1000) }
	for _, f := range all {
		started, durable, saved := s.started[f.name], s.durable[f.name], s.saved["pvc-"+string(f.uid)]
		if started.IsZero() || durable.IsZero() || saved.IsZero() {
			continue
		}
		out = append(out, stages{
			seen: ms(f.created, f.ready()), queued: ms(f.ready(), started), durable: ms(started, durable),
			saved: ms(durable, saved), bound: ms(saved, f.bound),
		})
	}
	return out
}
