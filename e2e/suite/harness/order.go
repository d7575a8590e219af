package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Tests that something does not happen order what they check instead of waiting for a while, in
// which a slow agent does nothing: they wait until the agent has handled what would make it act
// wrongly, and then check once.
//
//	CatchUp   what happened before the call is handled
//	Pass      what happened before the call is begun; the agent may be a pod
//	Queue     an item of a work queue was handled, or failed and is tried again
//	Checked   the check for migrations that the agent exports is over
//
// Agents do some things after a pause, without an event from outside. CatchUp does not wait for
// these. A test of one waits for a metric or an event that the same goroutine writes afterwards.

// Once calls ask once, and ends the test with its error.
func (s *Scene) Once(what string, ask func() error) {
	s.Helper()
	if err := ask(); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// Until calls ask until enough returns nil, and then once more, and ends the test with its first
// error. Without a mistake of the product it takes as long as the product takes for enough.
func (s *Scene) Until(what string, enough, ask func() error) {
	s.Helper()
	s.Eventually(what, func() error {
		s.Helper()
		err := enough()
		s.Once(what, ask)
		return err
	})
}

// Holds calls ask once, after the agent has caught up, and ends the test with its error.
func (s *Scene) Holds(a *Agent, what string, ask func() error) {
	s.Helper()
	s.CatchUp(a)
	s.Once(what, ask)
}

// The work queues of an agent that serves claims.
const (
	QueueClaims  = "claims"  // of the provisioner library: claims to serve
	QueueVolumes = "volumes" // of the provisioner library: PVs to delete
	QueuePVs     = "pvs"     // PVs to bind, adopt and rebind
	QueueResizes = "resizes" // claims to grow
)

// CatchUp waits until the agent has handled what happened to claims and PVs of its node before the
// call. The agent must be able to serve claims.
//
// It has a volume pass; see Pass. Workers of the agent run beside each other, and what they began
// before may not have ended by then, so CatchUp waits until all queues are idle. What failed and
// waits for its next try was handled. Queue waits for the next try. The volume's directory may be in
// the pool's trash still.
func (s *Scene) CatchUp(a *Agent) {
	s.Helper()
	s.Pass(a.claim())
	s.Idle(a)
}

// Pass creates a claim that an agent serves without a pod, waits until it is bound and has the event
// of the provisioner library, deletes it, and waits until its PV is gone.
//
// The API server sends changes of claims in their order, and those of PVs, and the agent takes them
// into its queues in that order. It begins items in the order of a queue, and records the library's
// events in the order in which they occur. So by then the agent has begun everything from before
// the call, and recorded the events of what had ended. What stays open: the agent's parts take what
// a watch brings beside each other, and one could be behind another by the whole life of the volume.
func (s *Scene) Pass(c Claim) {
	s.Helper()
	claim := s.Create(c)
	pv := s.Bound(claim).Name
	s.Eventually("event of claim "+claim.Name, func() error {
		all := s.Events(claim.UID)
		if !slices.ContainsFunc(all, func(e Event) bool { return e.Reason == "ProvisioningSucceeded" }) {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	s.Delete(claim)
	s.Gone(pv)
}

// serves reports whether the agent serves claims of the classes of manifests/legacy or manifests/csi.
func (a *Agent) serves() bool {
	return !a.options.Disks && a.options.CSI != "none" &&
		!slices.ContainsFunc(a.options.Env, func(v string) bool { return strings.HasPrefix(v, "COMPAT=") })
}

// claim returns a claim that an agent which serves such claims serves without a pod.
func (a *Agent) claim() Claim {
	if a.options.CSI == "csi" {
		return Claim{Class: ClassCSI, Selected: a.Node.Name, Size: "1Mi"}
	}
	return Claim{Node: a.Node.Name, Size: "1Mi"}
}

// Idle waits until the agent's work queues have no items, and no worker handles one. The agent need
// not be able to serve claims. Items that are tried again later are in no queue until then.
func (s *Scene) Idle(a *Agent) {
	s.Helper()
	before, since := map[string]float64{}, time.Now()
	s.Eventually("idle queues of the agent of "+a.Node.Name, func() error {
		added := map[string]float64{}
		var busy error
		twice := false
		for _, name := range []string{QueueClaims, QueueVolumes, QueuePVs, QueueResizes} {
			q, err := a.queue(name)
			if err != nil {
				return err
			}
			added[name] = q.added
			if q.begun != q.added || q.handled < q.added || q.handled > q.added && q.unfinished > 0 {
				busy = fmt.Errorf("queue %s: %+v", name, q.counters)
			}
			twice = twice || q.handled > q.added
		}
		// The counters are not read at one time: only if nothing is added between two reads, all
		// that was added is handled.
		if !maps.Equal(added, before) {
			before, since = added, time.Now()
			return errors.Join(busy, errors.New("items were added since the last read"))
		}
		if busy == nil && twice && time.Since(since) < 2*unfinishedEvery {
			busy = errors.New("unfinished work is not known yet")
		}
		return busy
	})
}

// unfinishedEvery is how often client-go measures the unfinished work of a queue. It matters where
// items are handled once more than they were added: the provisioner library ends the work on a PV
// when that is deleted, and the worker ends it, too. Then the number of handled items does not show
// that all are.
const unfinishedEvery = 500 * time.Millisecond

// Queue has the counters of one of the agent's work queues as they were when it was read.
type Queue struct {
	agent *Agent
	name  string
	counters
}

type counters struct {
	added, begun, handled, again, unfinished float64
}

// Queue reads the counters of one of the agent's work queues, which begin with its start.
func (s *Scene) Queue(a *Agent, name string) Queue {
	s.Helper()
	var q Queue
	s.Eventually("counters of queue "+name, func() (err error) { q, err = a.queue(name); return err })
	return q
}

func (a *Agent) queue(name string) (Queue, error) {
	q := Queue{agent: a, name: name}
	label := fmt.Sprintf("name=%q", name)
	status, body, err := a.Get("/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("metrics: status %d", status)
	}
	for metric, to := range map[string]*float64{
		"workqueue_adds_total": &q.added, "workqueue_queue_duration_seconds_count": &q.begun,
		"workqueue_work_duration_seconds_count": &q.handled, "workqueue_retries_total": &q.again,
		"workqueue_unfinished_work_seconds": &q.unfinished,
	} {
		if err == nil {
			*to, err = MetricIn(body, metric, label)
		}
	}
	return q, err
}

// Handled returns nil if items were added to the queue after it was read, and all are handled. It
// is for queues to which nothing else is added.
func (q Queue) Handled() error {
	now, err := q.agent.queue(q.name)
	if err == nil && (now.added == q.added || now.handled != now.added) {
		err = fmt.Errorf("queue %s: %v items were added and %v handled; before, %v were added", q.name, now.added,
			now.handled, q.added)
	}
	return err
}

// TriedAgain returns nil if an item failed after the queue was read, was tried again, and failed
// again. It is for queues in which nothing else fails.
func (q Queue) TriedAgain() error { return q.failed(2) }

// Failed returns nil if an item failed after the queue was read, and is tried again later. It is
// for queues in which nothing else fails.
func (q Queue) Failed() error { return q.failed(1) }

func (q Queue) failed(times float64) error {
	now, err := q.agent.queue(q.name)
	if err == nil && now.again < q.again+times {
		err = fmt.Errorf("queue %s: %v items failed, want %v", q.name, now.again-q.again, times)
	}
	return err
}

// Checked waits until the check for migrations whose verdicts the agent exports now is over, with
// what it began: the next check has published its verdicts. The agent checks when a PV of its node
// changes, so Checked creates one, of no provisioner.
func (s *Scene) Checked(a *Agent) {
	s.Helper()
	at := func() (time.Time, error) {
		var report struct{ Checked time.Time }
		status, body, err := a.Get("/migration")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		if err == nil {
			err = json.Unmarshal([]byte(body), &report)
		}
		return report.Checked, err
	}
	var first time.Time
	s.Eventually("check for migrations", func() (err error) {
		if first, err = at(); err == nil && first.IsZero() {
			err = errors.New("there was none since the start")
		}
		return err
	})
	suffix := fmt.Sprintf("wakes-%d", s.counter.Add(1))
	s.LocalPV(suffix, "/nowhere")
	s.PatchPV(s.ClassName(suffix), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, LabelNode, a.Node.Name))
	s.Eventually("another check for migrations", func() error {
		now, err := at()
		if err == nil && !now.After(first) {
			err = fmt.Errorf("the last was at %s", now)
		}
		return err
	})
}
