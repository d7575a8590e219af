package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// quiet has the operator woken for a minute by what does not concern it.
func quiet(_ *testing.T, o *operated) { o.writesNothing(12) }

// writesNothing fails if the operator writes while nothing changes that concerns it: what wakes it,
// every five seconds, is an annotation of a pod.
func (o *operated) writesNothing(wakes int) {
	o.Helper()
	o.healthy()
	time.Sleep(5 * time.Second) // events are recorded in the background
	begun, before, events := time.Now(), o.writes(), o.healthyEvents()
	for range wakes {
		time.Sleep(5 * time.Second)
		o.wake()
	}
	time.Sleep(time.Second)
	o.recordedNothing(begun)
	if after := o.writes(); len(after) != len(before) {
		o.Errorf("written while nothing changed: %v", after[len(before):])
	}
	if len(before) == 0 || events == 0 {
		o.Errorf("%d writes and %d events before it", len(before), events)
	}
	if after := o.healthyEvents(); after != events {
		o.Errorf("%d events, then %d", events, after)
	}
}

// wake changes the agents' pods without a consequence.
func (o *operated) wake() {
	o.Helper()
	pods := o.Client.CoreV1().Pods(harness.Namespace)
	list, err := pods.List(o.Context(), metav1.ListOptions{LabelSelector: "k8s-app=hostpath-provisioner"})
	if err != nil || len(list.Items) == 0 {
		o.Fatalf("%d pods, %v", len(list.Items), err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/seen":%q}}}`, time.Now())
	for _, pod := range list.Items {
		if _, err := pods.Patch(o.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			o.Fatal(err)
		}
	}
}

// recordedNothing fails if an event of the resource was recorded, for the first time or again,
// since a moment.
func (o *operated) recordedNothing(since time.Time) {
	o.Helper()
	list, err := o.Client.EventsV1().Events("").List(o.Context(), metav1.ListOptions{FieldSelector: "regarding.kind=HostPathProvisioner"})
	if err != nil {
		o.Fatal(err)
	}
	if len(list.Items) == 0 {
		o.Error("the resource has no events")
	}
	for _, e := range list.Items {
		last := e.EventTime.Time
		if e.Series != nil {
			last = e.Series.LastObservedTime.Time
		}
		if last.After(since) {
			o.Errorf("recorded while nothing changed: %s %s, series %v", e.Reason, e.Note, e.Series)
		}
	}
}

func (o *operated) healthyEvents() int {
	o.Helper()
	n, err := o.events("ProvisionerHealthy")
	if err != nil {
		o.Fatal(err)
	}
	return n
}

// writes lists the writes of the operator, but for its lease.
func (o *operated) writes() []string {
	o.Helper()
	return operatorWrites(o.Scene, o.audit)
}

// settled waits until the operator has written nothing for two seconds, and returns its writes. The audit
// log has a write a moment after others can see it.
func (o *operated) settled() (all []string) {
	o.Helper()
	o.Eventually("the operator rests", func() error {
		before := o.writes()
		time.Sleep(2 * time.Second)
		if all = o.writes(); len(all) != len(before) {
			return fmt.Errorf("it writes %v", all[len(before):])
		}
		return nil
	})
	return all
}

// operatorWrites lists, from an audit log, the writes of the operator, but for its lease.
func operatorWrites(s *harness.Scene, audit string) (all []string) {
	s.Helper()
	file, err := os.Open(audit)
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ObjectRef        struct{ Resource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.Fatal(err)
		}
		// The library that records events ends a series of them six minutes after its last one;
		// recordedNothing looks at those.
		series := e.Verb == "patch" && strings.Contains(e.RequestURI, "/events/"+serving+".")
		if strings.HasSuffix(e.User.Username, ":"+harness.OperatorAccount) && e.ObjectRef.Resource != "leases" && !series &&
			!slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
			all = append(all, e.Verb+" "+e.RequestURI)
		}
	}
	return all
}
