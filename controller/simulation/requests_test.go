package simulation_test

import (
	"fmt"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// No program asks for one thing, or for all, more often than that in an hour, whether it is served or
// refused. An informer that is refused lists and watches every 15 to 30 seconds. The lease of the
// operators and the question which APIs there are have pauses of their own.
const (
	mostOfOne = 300
	mostOfAll = 2500
)

// rests are clusters in which nothing happens after the words, by what is looked at.
var rests = map[string]string{
	"agent":                 "claim c1 node-01 hp 1Mi; claim c2 node-01 a-keep 1Mi; wait 1m",
	"agent that migrates":   "claim c1 node-01 hp 1Mi; claim c2 node-01 a-keep 1Mi; migrate node-01 run; wait 1m",
	"agent without a label": "claim c1 node-01 a-keep 1Mi; wait 1m; pv strip c1; agent restart node-01 --provision=hostpath; disk away node-01/a",
	"operator":              "install a=/a b=/b+claim; wait 3m; claim c1 node-01 a-keep 1Mi; wait 1m",
	"disks":                 "raw offer node-01 refuse by-id Block; raw plug node-01 1 naa/1; raw claim r1; wait 5m",
}

// atRest are the most requests of one kind that a process makes in ten hours in which nothing happens,
// by verb and resource, and by verb for all other resources. They are those of its loops, and a tenth
// more. The two operators, of which one leads, count as one. Lists have all objects, so each has a
// reason.
var atRest = map[string]int{
	"watch":                  180,   // of two parts or processes; a watch lasts five to ten minutes
	"get nodes":              660,   // each minute, for all loops of an agent: its Node's identity, hostname and marks
	"get csidrivers":         130,   // each five minutes
	"get csinodes":           660,   // each minute
	"list persistentvolumes": 20,    // each hour, or each day; disks do so in each pass
	"get leases":             13000, // of the operators' election
	"update leases":          20000,
	"get apis":               16000, // which APIs there are
}

// few are what a process may ask for whenever it likes: an event that is repeated once an hour, for example.
const few = 10

// atRestOfDisks are those of a process that looks at its disks every five minutes.
var atRestOfDisks = map[string]int{"list persistentvolumes": 130, "list leases": 130, "get nodes": 130, "get configmaps": 130}

// Each process asks the API server for few things while nothing happens. What it asks for in ten hours
// is the difference of two runs.
func TestRequestsAtRest(t *testing.T) {
	c := &child{t: t}
	defer c.end()
	for what, words := range rests {
		sent := func(wait string) map[string]int {
			steps := append(strings.Split(words, "; "), "wait "+wait)
			r := c.run(simulation.Run{Seed: 1, Words: steps})
			if len(r.Words) != len(steps) || len(r.Violations) > 0 {
				t.Fatalf("%s: %q, %+v", what, r.Words, r.Violations)
			}
			all := map[string]int{}
			for request, n := range r.Sent {
				if who, rest, _ := strings.Cut(request, " "); strings.HasPrefix(who, "operator") {
					request = "operator " + rest // its pod has another name in the next run
				}
				all[request] += n
			}
			return all
		}
		before, counts := sent("1h"), sent("11h")
		for request := range counts {
			counts[request] -= before[request]
		}
		asked := map[string]bool{}
		for request, n := range counts {
			who, kind, _ := strings.Cut(request, " ")
			program, _, _ := strings.Cut(who, "/")
			verb, _, _ := strings.Cut(kind, " ")
			most := max(atRest[kind], atRest[verb], few)
			if program == "disks" {
				most = max(most, atRestOfDisks[kind])
			}
			if asked[program] = true; n > most && program != "god" && program != "manager" {
				t.Errorf("%s: %d times %s in ten hours in which nothing happened, and %d at most are expected", what, n, request, most)
			}
		}
		if program, _, _ := strings.Cut(what, " "); !asked[program] {
			t.Errorf("%s: it asked for nothing: %v", what, counts)
		}
	}
}

// Each program asks the API server a bounded number of things while all of its requests are refused.
// The rule BUSY bounds the hour at rest that ends each run of words.
func TestRequestsWhileAllIsRefused(t *testing.T) {
	c := &child{t: t}
	defer c.end()
	for program, before := range map[string][]string{
		"agent":    {"claim c1 node-01 hp 1Mi", "claim c2 node-01 a-keep 1Mi", "wait 1m"},
		"operator": {"install a=/a b=/b+claim", "wait 3m", "claim c1 node-01 a-keep 1Mi", "wait 1m"},
		"disks":    {"raw offer node-01 refuse by-id Block", "raw plug node-01 1 naa/1", "raw claim r1", "wait 5m"},
	} {
		for _, code := range []string{"403", "503"} {
			r := c.run(simulation.Run{Seed: 1, Words: append(before, "server refuses "+program+" "+code+" 2h", "wait 2h")})
			if len(r.Words) != len(before)+2 {
				t.Fatalf("%s, %s: these steps alone were possible: %q", program, code, r.Words)
			}
			for _, v := range r.Violations {
				t.Errorf("%s, %s: %s: %s", program, code, v.Rule, v.Text)
			}
			hours, sum, asked := int(r.Simulated.Hours())+1, map[string]int{}, false
			for what, n := range r.Sent {
				who, request, _ := strings.Cut(what, " ")
				if strings.HasSuffix(request, " leases") || strings.HasSuffix(request, " apis") || who == "god" || who == "manager" {
					continue
				}
				sum[who] += n
				asked = asked || strings.HasPrefix(who, program)
				if n > mostOfOne*hours {
					t.Errorf("%s, %s: %d times %s in %d hours", program, code, n, what, hours)
				}
			}
			for who, n := range sum {
				if n > mostOfAll*hours {
					t.Errorf("%s, %s: %d requests of %s in %d hours: %s", program, code, n, who, hours, fmt.Sprint(r.Sent))
				}
			}
			if !asked {
				t.Errorf("%s, %s: it asked for nothing: %v", program, code, r.Sent)
			}
		}
	}
}
