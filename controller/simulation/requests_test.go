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
