package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// Run is what to simulate: by a seed, or by words.
type Run struct {
	Seed  uint64
	Kind  string   // agents, operator or disks; "" for any
	Steps int      // that a seed draws
	Words []string // the steps, instead of a seed's
}

// Result is what became of a run.
type Result struct {
	Words      []string // the steps that were taken
	Violations []Violation
	Trace      []string      // the steps with their times, for people
	Simulated  time.Duration // time in the cluster
	Took       time.Duration
	Requests   int
	Sent       map[string]int // requests by program and what it asked for: "agent/node-01 get nodes"
}

// Progress counts the minutes of all runs of this process. It stands still if a clock does.
var Progress atomic.Int64

// current is the world of the run that is made now, for Stuck.
var current atomic.Pointer[World]

// Stuck describes the run whose clock stands still: its last steps, and the requests of the next
// two seconds of the kernel. A loop without a pause shows there.
func Stuck() string {
	w := current.Load()
	before := w.API.Counts()
	for began := kernelNow(); kernelNow().Sub(began) < 2*time.Second; {
		runtime.Gosched()
	}
	text := strings.Join(w.trace[max(0, len(w.trace)-30):], "\n") + "\n"
	for what, n := range w.API.Counts() {
		if n -= before[what]; n > 0 {
			text += fmt.Sprintf("%s %d\n", what, n)
		}
	}
	return text
}

// Simulate runs in the bubble of its caller. The goroutines of a cluster do not all end, so that
// the bubble never does: the caller leaves it behind.
func (r Run) Simulate(base string) Result {
	// The usual handler waits until a millisecond after the last error, which was in another bubble.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(ctx context.Context, err error, msg string, args ...any) {
		klog.FromContext(ctx).Error(err, msg, args...)
	}}
	began := kernelNow()
	time.Sleep(time.Until(began)) // a bubble's clock begins in 2000, and the kernel writes its own time
	words := r.Words
	rnd := rand.New(rand.NewPCG(r.Seed, 1))
	w := &World{API: apiserver.New(), rnd: rnd, base: base, began: time.Now(), exactly: words != nil}
	nodes := 2
	if w.kind = kindOf(words); words == nil {
		w.kind, nodes = pick(w, kinds), 1+rnd.IntN(2)
		if only := slices.Index(runKinds, r.Kind); only >= 0 {
			w.kind = runKind(only)
		}
	}
	if w.kind != ofAgents {
		nodes = 2
	}
	w.build(nodes)
	current.Store(w)
	time.Sleep(10 * time.Second)
	var result Result
	go func() {
		for ; ; time.Sleep(time.Minute) {
			Progress.Add(1)
		}
	}()
	take := func(step string) (done, goOn bool) {
		if done = w.take(step); done {
			result.Words = append(result.Words, step)
		}
		synctest.Wait()
		w.judge.bytes()
		w.raw.offered()
		return done, !w.judge.failed()
	}
	if words != nil {
		for _, step := range words {
			if _, goOn := take(step); !goOn {
				break
			}
		}
	} else {
		r.draw(w, take)
	}
	if !w.judge.failed() {
		w.end()
		synctest.Wait()
		w.judge.bytes()
	}
	result.Violations, result.Trace, result.Simulated, result.Took = causes(w.judge.violations()), w.trace, time.Since(w.began), kernelNow().Sub(began)
	result.Sent = map[string]int{}
	for what, n := range w.API.Counts() {
		result.Requests += n
		who, request, _ := strings.Cut(what, " ")
		result.Sent[program(who)+" "+request] += n
	}
	if len(result.Violations) > 0 || r.Words != nil {
		result.Trace = append(result.Trace, w.state()...)
	}
	return result
}

// draw takes the steps of the seed. People wait after what they did.
func (r Run) draw(w *World, take func(string) (done, goOn bool)) {
	d := newDrawer(w)
	for _, step := range d.prelude() {
		if _, goOn := take(step); !goOn {
			return
		}
	}
	for range r.Steps {
		done, goOn := take(d.step())
		if done && goOn {
			_, goOn = take(d.pause())
		}
		if !goOn {
			return
		}
	}
}

// end ends all faults: nodes and disks are there again, and everything runs. An hour later the
// cluster is judged, and so are the requests of the hour after that.
func (w *World) end() {
	w.revive()
	w.raw.revive()
	for _, n := range w.nodes {
		if n.agent != nil {
			n.agent.stopAt.Store(0)
		}
	}
	w.faults.end()
	w.raw.end()
	if i := w.inst.Load(); i != nil {
		i.end()
	}
	w.say("                    all faults end")
	for _, n := range w.nodes {
		for pool := range n.away {
			w.moveDisk(n.name+"/"+pool, false)
		}
		if !n.absent.IsZero() {
			w.makeNode(n)
		}
		if n.agent == nil && w.kind != ofRawDisks {
			w.startAgent(n)
		}
	}
	if w.sleep(time.Hour + time.Minute); w.restored {
		w.sleep(2 * time.Hour) // events went with etcd, and a process repeats its own only then
	}
	w.afterFaults()
	w.afterCopies()
	w.raw.offered()
	if i := w.inst.Load(); i != nil {
		i.afterFaults()
	}
	if w.rnd.IntN(4) == 0 || w.exactly {
		before := w.API.Counts()
		time.Sleep(time.Hour)
		w.quiet(before, w.API.Counts())
	}
}

// failed reports whether a rule is broken whose breach leads to others, or a defect is found that is
// not known: a run ends there.
func (j *judge) failed() bool {
	return slices.ContainsFunc(j.violations(), func(v Violation) bool { return Known(v) == "" || !harmless(v) })
}

func harmless(v Violation) bool {
	return slices.Contains([]string{"BUSY", "COPIED", "SILENT", "STUCK", "ADVICE", "TAKEN", "ROLLOUT"}, v.Rule)
}

// causes leaves out what is broken after a known defect whose breach leads to others.
func causes(all []Violation) []Violation {
	for i, v := range all {
		if Known(v) != "" && !harmless(v) {
			return all[:i+1]
		}
	}
	return all
}

// busiest is the most requests that a program makes in an hour in which nothing happens, by the
// first part of its name. The operator asks for each node that is gone, once a minute.
var busiest = map[string]int{"agent": 1000, "second": 1000, "operator": 1500, "disks": 1000} // each disk that fails asks for a pass

// quiet judges the requests of an hour in which nothing happened.
func (w *World) quiet(before, after map[string]int) {
	sum, most := map[string]int{}, map[string]string{}
	for what, n := range after {
		who, request, is := strings.Cut(what, "#")
		polls := strings.HasSuffix(what, " leases") || strings.HasSuffix(what, " apis") // a lease, and which APIs there are
		if n -= before[what]; is && n > 0 && !polls {                                   // a life of a process
			sum[who] += n
			_, request, _ = strings.Cut(request, " ")
			most[who] += fmt.Sprintf(" %s %d,", request, n)
		}
	}
	for who, n := range sum {
		if kind, _, _ := strings.Cut(who, "/"); n > busiest[kind] {
			w.judge.blame("BUSY", "%s made %d requests in an hour in which nothing happened:%s", who, n, most[who])
		}
	}
}

// state describes the claims, PVs and latest events, for people who look for the cause.
func (w *World) state() (lines []string) {
	for _, c := range w.API.Objects("persistentvolumeclaims") {
		lines = append(lines, fmt.Sprintf("claim %s %s: %s, PV %q, %v", field(c, "metadata", "name"), field(c, "metadata", "uid"), field(c, "status", "phase"),
			field(c, "spec", "volumeName"), c["metadata"].(object)["annotations"]))
	}
	for _, pv := range w.API.Objects("persistentvolumes") {
		lines = append(lines, fmt.Sprintf("PV %s: %s, %s, %s, deleted %q, %v", field(pv, "metadata", "name"), field(pv, "status", "phase"),
			field(pv, "spec", "capacity", "storage"), field(pv, "spec", "persistentVolumeReclaimPolicy"), field(pv, "metadata", "deletionTimestamp"), pv["metadata"].(object)["annotations"]))
	}
	events := w.API.Objects("events")
	slices.SortFunc(events, func(a, b object) int { return cmp.Compare(field(a, "lastTimestamp"), field(b, "lastTimestamp")) })
	for _, e := range events[max(0, len(events)-20):] {
		lines = append(lines, fmt.Sprintf("event %s %s %s: %s: %s", field(e, "lastTimestamp"), field(e, "involvedObject", "kind"), field(e, "involvedObject", "name"),
			field(e, "reason"), field(e, "message")))
	}
	return lines
}
