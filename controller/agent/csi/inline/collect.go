package inline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	// collectFirst is when the first check comes: the pools had time to open.
	collectFirst = 5 * time.Second
	// collectEvery is the pause between two checks. A volume is deleted at the second
	// check that misses its pod, so this is also how long the kubelet has to make
	// the directories of its pods again if they were all removed.
	collectEvery = time.Minute
)

// podsName is the kubelet's directory that has one directory for each pod.
const podsName = "pods"

// collector deletes the inline volumes of one pool whose pods are gone: those
// that the kubelet never unpublished, or unpublished while the pool was not ready.
//
// The kubelet keeps a pod's directory until it has unmounted all volumes of the pod. A volume is
// deleted only if that directory is missing at two checks in a row, and once more while no other
// call works on the volume, and if no mount uses the volume. Nothing is deleted if the kubelet's
// directory cannot be read or shows no pod at all: it is then more likely hidden than empty.
type collector struct {
	pool    *volume.Pool
	pods    string // the kubelet's directory of pods
	changed func(*volume.Pool)
	missed  map[string]bool // volumes whose pod was missing at the last check
}

// Collect runs a collector for each pool until the context ends, and then waits for them. They do not
// wait for each other: the disk of a pool may hang.
func (v *Volumes) Collect(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	for _, p := range v.Pools.All() {
		c := &collector{pool: p, pods: filepath.Join(v.KubeletDir, podsName), changed: v.Changed}
		parts.Go(func() { c.run(ctx) })
	}
}

func (c *collector) run(ctx context.Context) {
	log := klog.FromContext(ctx).WithValues("pool", c.pool.Name())
	for next := collectFirst; sleep.For(ctx, next); next = collectEvery {
		if err := c.check(log); err != nil && !errors.Is(err, volume.ErrNotReady) {
			log.Error(err, "Cannot check for inline volumes whose pods are gone; the agent retries")
		}
	}
}

// check notes on the record of each inline volume whether its pod is gone, and
// deletes those whose pod was gone at the last check as well. A volume whose
// record names no pod stays. A check that fails forgets the last one.
func (c *collector) check(log klog.Logger) error {
	before := c.missed
	c.missed = map[string]bool{}
	all, err := c.pool.List()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(v volume.Volume) bool { return !v.Ephemeral || v.Owner.UID == "" })
	if len(all) == 0 {
		return nil
	}
	pods, err := listPods(c.pods)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range all {
		gone := !pods[v.Owner.UID]
		if gone && before[v.Name] {
			err = c.delete(log, v.Record)
		} else {
			err = c.note(log, v.Record, gone)
		}
		c.missed[v.Name] = gone
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// note writes on the record that the pod is gone, or takes that note back. The
// metric, the event and inspect report what has a note.
func (c *collector) note(log klog.Logger, r record.Record, gone bool) error {
	why := ""
	if gone {
		why = fmt.Sprintf("pod %s/%s (%s) is gone, and its volume was not unpublished", r.Owner.Namespace, r.Owner.Name,
			r.Owner.UID)
	}
	if why == r.Orphan.Why {
		return nil
	}
	if gone {
		log.Info("The pod of an inline volume is gone; the volume is deleted soon", "volume", r.Name, "pod", r.Owner)
	}
	_, err := c.pool.NoteOrphan(r.Name, why, 0)
	if errors.Is(err, volume.ErrNotFound) {
		return nil // it was unpublished meanwhile
	}
	return err
}

// errPodIsBack: the volume's pod is there after all.
var errPodIsBack = errors.New("the pod of the volume is back")

// delete removes the volume unless its pod is back. A volume that is in use stays until it is not.
func (c *collector) delete(log klog.Logger, r record.Record) error {
	err := c.pool.DeleteIf(r.Name, func(now volume.Volume) error {
		pods, err := listPods(c.pods)
		if err != nil {
			return err
		}
		if !now.Ephemeral || now.Owner.UID != r.Owner.UID || pods[now.Owner.UID] {
			return errPodIsBack
		}
		return nil
	})
	switch {
	case err == nil:
		log.Info("Deleted an inline volume whose pod is gone", "volume", r.Name, "pod", r.Owner, "bytes", r.Bytes)
		c.changed(c.pool)
	case errors.Is(err, errPodIsBack):
		return nil
	case errors.Is(err, volume.ErrInUse):
		log.V(1).Info("An inline volume whose pod is gone is still in use", "volume", r.Name, "err", err)
		return nil
	}
	return err
}

// listPods returns the UIDs of the pods that have a directory in dir. The error says so if none of
// them looks like the kubelet's, which makes a directory "volumes" in each.
func listPods(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	pods, kubelets := map[string]bool{}, false
	for _, e := range entries {
		pods[e.Name()] = true
		if !kubelets {
			volumes, err := os.Lstat(filepath.Join(dir, e.Name(), "volumes"))
			kubelets = err == nil && volumes.IsDir()
		}
	}
	if !kubelets {
		return nil, fmt.Errorf("%s has no pod's directory: it is hidden, or not the kubelet's", dir)
	}
	return pods, nil
}
