package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

const (
	sweepEvery = time.Hour
	sweepPage  = 500
)

// sweep finds PVs that carry our names and this node but not our label: made
// by an older provisioner, by a backup tool, by hand. It remembers them, for
// what they say of the pool. Nothing is changed.
//
// It reads every PV of the cluster, a page at a time, so it runs seldom.
func (c *Controller) sweep(ctx context.Context) error {
	var found []corev1.PersistentVolume
	page := metav1.ListOptions{Limit: sweepPage}
	for {
		list, err := c.client.CoreV1().PersistentVolumes().List(ctx, page)
		if err != nil {
			return fmt.Errorf("look for PVs that older provisioners made: %w", err)
		}
		for i := range list.Items {
			if pv := &list.Items[i]; c.unlabelled(pv) {
				pv.ManagedFields = nil
				found = append(found, *pv)
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			c.older.Store(&found)
			return nil
		}
	}
}

func (c *Controller) unlabelled(pv *corev1.PersistentVolume) bool {
	return pv.Labels[class.LabelNode] != class.LabelValue(c.node) &&
		pv.Annotations[class.AnnProvisionedBy] == class.HostPathProvisioner &&
		pv.Annotations[class.AnnProvisionOnNode] == c.node
}

// label gives the PVs of the last sweep our label, so that the watch brings
// them and they are adopted. One that only pretends to be ours is left alone.
func (c *Controller) label(ctx context.Context) {
	if c.pool.Ready() != nil {
		return
	}
	for i := range *c.older.Load() {
		pv := &(*c.older.Load())[i]
		if err := c.pretends(pv); err != nil {
			c.disown(ctx, pv, err)
			continue
		}
		if err := c.patchMeta(ctx, pv, "labels", class.LabelNode, class.LabelValue(c.node)); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot label a PV that an older provisioner made", "PV", pv.Name)
		}
	}
}

// patchMeta sets one label or annotation of a PV. It does nothing where the PV
// is gone, or where another one has its name by now.
func (c *Controller) patchMeta(ctx context.Context, pv *corev1.PersistentVolume, field, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pv.UID,
		field: map[string]string{key: value},
	}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// pretends returns nil where the PV is one that we or the older provisioner
// could have made.
func (c *Controller) pretends(pv *corev1.PersistentVolume) error {
	name, err := c.examine(pv)
	if err != nil {
		return err
	}
	if v, err := c.pool.Get(name); err == nil {
		return matches(v, pv)
	}
	return adoptable(pv, name)
}

// sweepForever sweeps at start and then about once an hour; the jitter keeps
// the nodes of a cluster from doing it all at once.
func (c *Controller) sweepForever(ctx context.Context) {
	for {
		c.label(ctx)
		pause := sweepEvery + rand.N(sweepEvery/2)
		if len(*c.older.Load()) > 0 && c.pool.Ready() != nil {
			pause = lookAgain // label them as soon as the pool is back
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := c.sweep(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Sweep failed; it is tried again within two hours")
		}
	}
}

// Expected says what the PVs of this node say of the pool: whose it must be,
// and which directories must be there before one may be founded.
func (c *Controller) Expected() volume.Expected {
	var e volume.Expected
	ids := map[string]bool{}
	note := func(pv *corev1.PersistentVolume) {
		if pv.Spec.HostPath == nil || filepath.Dir(pv.Spec.HostPath.Path) != c.pool.Path() {
			return
		}
		if id := pv.Annotations[class.AnnPool]; id != "" {
			ids[id] = true
		} else {
			e.Volumes = append(e.Volumes, filepath.Base(pv.Spec.HostPath.Path))
		}
	}
	for _, obj := range c.pvs.GetStore().List() {
		note(obj.(*corev1.PersistentVolume))
	}
	for i := range *c.older.Load() {
		note(&(*c.older.Load())[i])
	}
	for id := range ids {
		e.IDs = append(e.IDs, id)
	}
	return e
}
