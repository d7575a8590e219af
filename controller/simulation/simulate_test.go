package simulation_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// The variables of a run; `make simulate` sets them. Without one, TestSimulate takes the fixed seeds
// of tier 1.
const (
	varMinutes = "SIMULATE_MINUTES" // how long new seeds are drawn
	varSeed    = "SIMULATE_SEED"    // the first seed; with varRuns or varMinutes
	varRuns    = "SIMULATE_RUNS"    // how many seeds
	varSteps   = "SIMULATE_STEPS"   // of each seed
	varWords   = "SIMULATE_WORDS"   // a file of words to replay instead, or the words with ; between them
	varKind    = "SIMULATE_KIND"    // agents, operator or disks alone
	varFirst   = "SIMULATE_FIRST"   // 1 ends at the first failure
	varChild   = "SIMULATE_CHILD"
)

// runsOfChild is how many runs one process makes. What a run leaves behind stays in its memory.
const runsOfChild = 12

// A clock stands still if no minute passes in this time, or in so much of the processor's. A minute
// takes a fraction of a second.
const stuckAfter, stuckWork = 3 * time.Minute, 20 * time.Second

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q: set a number", name, text)
	}
	return n
}

// TestSimulate runs clusters by seeds on all processors, and shortens what fails.
func TestSimulate(t *testing.T) {
	if words := os.Getenv(varWords); words != "" {
		replay(t, words)
		return
	}
	seed, runs, steps := number(t, varSeed, 100), number(t, varRuns, 8), number(t, varSteps, 20)
	minutes := number(t, varMinutes, 0)
	if minutes > 0 {
		steps = number(t, varSteps, 30)
		runs = number(t, varRuns, 1<<32)
		seed = number(t, varSeed, uint64(time.Now().UnixNano())%1_000_000)
	}
	fmt.Printf("seed %d, %d steps each\n", seed, steps)
	began, until := time.Now(), time.Now().Add(time.Duration(minutes)*time.Minute)
	var mu sync.Mutex
	var sum total
	var group sync.WaitGroup
	for range runtime.NumCPU() {
		group.Go(func() {
			c := &child{t: t}
			defer c.end()
			for {
				mu.Lock()
				s, over := seed, runs == 0 || t.Failed() && os.Getenv(varFirst) != "" || minutes > 0 && time.Now().After(until)
				if !over {
					seed, runs = seed+1, runs-1
				}
				mu.Unlock()
				if over {
					return
				}
				r := c.run(simulation.Run{Seed: s, Steps: int(steps), Kind: os.Getenv(varKind)})
				mu.Lock()
				found := sum.add(r)
				mu.Unlock()
				for _, v := range found {
					report(t, c, s, r, v, time.Since(began))
				}
			}
		})
	}
	group.Wait()
	fmt.Println(sum.String(time.Since(began)))
}

// total sums up runs.
type total struct {
	runs, requests int
	simulated      time.Duration
	seen           map[string]int // violations by rule and kind
}

// add adds a run, and returns its violations that are the first of their kinds.
func (s *total) add(r simulation.Result) (found []simulation.Violation) {
	s.runs++
	s.requests += r.Requests
	s.simulated += r.Simulated
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	for _, v := range r.Violations {
		key := v.Rule + " " + v.Kind
		if known := simulation.Known(v); known != "" {
			key = known
		}
		if s.seen[key]++; s.seen[key] == 1 {
			found = append(found, v)
		}
	}
	return found
}

func (s *total) String(took time.Duration) string {
	hours := s.simulated.Hours()
	return fmt.Sprintf("%d runs, %.0f simulated hours in %s (%.0f an hour and core), %d requests", s.runs, hours, took.Round(time.Second),
		hours/took.Hours()/float64(runtime.NumCPU()), s.requests)
}

// report shortens a run that failed, and prints it.
func report(t *testing.T, c *child, seed uint64, r simulation.Result, v simulation.Violation, after time.Duration) {
	if why := simulation.Known(v); why != "" {
		fmt.Printf("seed %d after %s: %s: %s\n    known: %s\n", seed, after.Round(time.Second), v.Rule, v.Text, why)
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d after %s: %s: %s\n    must be true: %s\n", seed, after.Round(time.Second), v.Rule, v.Text, simulation.Rules[v.Rule])
	fmt.Print(text.String()) // the search for fewer words may take longer than the test has
	for _, line := range r.Trace {
		fmt.Printf("    %s\n", line)
	}
	fails := func(words []string) bool {
		return slices.ContainsFunc(c.run(simulation.Run{Seed: seed, Words: words}).Violations, func(x simulation.Violation) bool {
			return x.Rule == v.Rule && x.Kind == v.Kind && simulation.Known(x) == ""
		})
	}
	words := r.Words
	if os.Getenv("SIMULATE_SHRINK") != "0" && slices.ContainsFunc([][]string{words, words, words}, fails) {
		words = simulation.Shrink(words, 60, fails)
		again := 0
		for range 5 {
			if fails(words) {
				again++
			}
		}
		fmt.Fprintf(&text, "    fails %d of 5 times with these words:\n", again)
	} else {
		text.WriteString("    the words alone do not fail; the trace is above\n")
	}
	for _, w := range words {
		fmt.Fprintf(&text, "        %s\n", w)
	}
	t.Error(text.String())
}

// replay runs words, and prints what happened.
func replay(t *testing.T, words string) {
	if data, err := os.ReadFile(words); err == nil {
		words = strings.TrimSpace(string(data))
	}
	var steps []string
	for step := range strings.FieldsFuncSeq(words, func(r rune) bool { return r == '\n' || r == ';' }) {
		if step = strings.TrimSpace(step); step != "" && !strings.HasPrefix(step, "#") {
			steps = append(steps, step)
		}
	}
	c := &child{t: t}
	defer c.end()
	for range number(t, varRuns, 1) {
		r := c.run(simulation.Run{Seed: 1, Words: steps})
		fmt.Println(strings.Join(r.Trace, "\n"))
		fmt.Printf("%s simulated in %s, %d requests\n", r.Simulated.Truncate(time.Second), r.Took.Truncate(time.Millisecond), r.Requests)
		for _, v := range r.Violations {
			t.Errorf("%s: %s", v.Rule, v.Text)
		}
	}
}
