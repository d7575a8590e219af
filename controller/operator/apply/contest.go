package apply

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// repairedAtOnce is how often one object is written as it was before without a delay: a change
	// is repaired within seconds.
	repairedAtOnce = 10
	// firstDelay precedes the next such write. It doubles with each one, up to longestDelay.
	firstDelay, longestDelay = 10 * time.Second, 10 * time.Minute
	// forgotten is the time without a write after which an object counts as undisputed.
	forgotten = 2 * longestDelay
)

// contest delays the writes of objects that others change back again and again: without it, the
// operator and another program, or an admission webhook, write one object without end.
type contest struct {
	mu sync.Mutex
	// objects has each object by its name and content. Another content is a change of the operator's
	// own, and no repair. One that it had before counts on: the changes of others may have the operator
	// write two contents in turn.
	objects map[string]*disputed
}

type disputed struct {
	// writes is how often this content was written, and last when.
	writes int
	last   time.Time
	// reported is true if the delay after the last write was reported.
	reported bool
}

// admit returns for how long the object must not be written yet, 0 for a write that may happen now,
// and whether this is the first question in that time.
func (c *contest) admit(want *unstructured.Unstructured, now time.Time) (wait time.Duration, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.objects[keyOf(want)]
	if d == nil {
		return 0, false
	}
	wait = max(0, d.delay()-now.Sub(d.last))
	if wait > 0 {
		first, d.reported = !d.reported, true
	}
	return wait, first
}

// again returns the time after which a write that was delayed may happen, 0 if there is none.
func (c *contest) again(now time.Time) (soonest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.objects {
		if wait := d.delay() - now.Sub(d.last); d.reported && wait > 0 && (soonest == 0 || wait < soonest) {
			soonest = wait
		}
	}
	return soonest
}

// wrote records a write of the object, and forgets those that were written long ago.
func (c *contest) wrote(want *unstructured.Unstructured, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects == nil {
		c.objects = map[string]*disputed{}
	}
	for key, d := range c.objects {
		if now.Sub(d.last) > forgotten {
			delete(c.objects, key)
		}
	}
	d := c.objects[keyOf(want)]
	if d == nil {
		d = &disputed{}
		c.objects[keyOf(want)] = d
	}
	d.writes, d.last, d.reported = d.writes+1, now, false
}

// delay returns the time between the last write and the next one.
func (d *disputed) delay() time.Duration {
	over := d.writes - repairedAtOnce
	if over < 0 {
		return 0
	}
	return min(longestDelay, firstDelay<<min(over, 10))
}

func keyOf(o *unstructured.Unstructured) string {
	return o.GroupVersionKind().GroupKind().String() + " " + o.GetNamespace() + "/" + o.GetName() + " " +
		o.GetAnnotations()[applied]
}

// contested describes an object that is not written yet.
func contested(want, have *unstructured.Unstructured, wait time.Duration) string {
	var others []string
	for _, e := range have.GetManagedFields() {
		if e.Manager != Owner && e.Subresource == "" && !slices.Contains(others, e.Manager) {
			others = append(others, e.Manager)
		}
	}
	who := "another program or an admission webhook"
	if len(others) > 0 {
		who += ", perhaps one of the field managers " + strings.Join(others, ", ")
	}
	return fmt.Sprintf("%s %s is changed again after each repair by %s; it is repaired in %s: end these changes",
		want.GetKind(), want.GetName(), who, wait.Round(time.Second))
}
