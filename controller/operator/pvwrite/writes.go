// Package pvwrite changes PVs for controllers that read them from a cache. It knows a change that another
// program reverted from one that the cache does not have yet.
package pvwrite

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/kube/live"
)

// forgotten is the time after which a change is not remembered any more, longer than every pause.
const forgotten = 2 * time.Hour

// Writes remembers the last change of each PV. The zero value remembers none. One worker uses it.
type Writes struct {
	// Now is the clock, time.Now if it is nil.
	Now func() time.Time

	last map[types.UID]change
}

// change is one that the API server accepted.
type change struct {
	text string
	at   time.Time
	// from is the PV's version that was changed, and to the version that this made. They are the same if
	// a webhook took the change out of the request.
	from, to string
	// times is how often the same change was made again.
	times int
}

// Again is what a caller does about a change that another program reverted.
type Again struct {
	// Report is called each time the change is found reverted.
	Report func()
	// Pause returns for how long the change waits before it is made again, the n-th time from 0.
	Pause func(n int) time.Duration
}

// Patch changes fields of a PV's metadata and spec, as live.PatchPV does. It does nothing if the PV is
// gone, was written since it was read, or was read before this change was made: the watch reports it then.
//
// wait is how long the change has to wait because another program reverted it, 0 if it does not.
func (w *Writes) Patch(ctx context.Context, client kubernetes.Interface, pv *corev1.PersistentVolume,
	meta, spec map[string]any, again Again) (wait time.Duration, err error) {
	text, err := json.Marshal([]map[string]any{meta, spec})
	if err != nil {
		return 0, err
	}
	now := change{text: string(text), from: pv.ResourceVersion}
	if last, ok := w.last[pv.UID]; ok && last.text == now.text {
		if last.from == pv.ResourceVersion && last.to != last.from {
			return 0, nil
		}
		again.Report()
		if wait = again.Pause(last.times) - w.now().Sub(last.at); wait > 0 {
			return wait, nil
		}
		now.times = last.times + 1
	}
	written, err := live.PatchPV(ctx, client, pv, meta, spec, metav1.PatchOptions{})
	if err != nil {
		return 0, live.IgnoreMoved(err)
	}
	now.to, now.at = written.ResourceVersion, w.now()
	w.remember(pv.UID, now)
	return 0, nil
}

func (w *Writes) now() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

func (w *Writes) remember(pv types.UID, now change) {
	if w.last == nil {
		w.last = map[types.UID]change{}
	}
	maps.DeleteFunc(w.last, func(_ types.UID, old change) bool { return now.at.Sub(old.at) > forgotten })
	w.last[pv] = now
}
