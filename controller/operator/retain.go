package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/identity"
)

// layout returns what the resource asks for, with the settings of the ConfigMap, and what the resource no longer names while
// PVs use it: without its pool, a pod of such a PV does not start, and its directory is never removed.
func (r *Reconciler) layout(ctx context.Context, cr *v1beta1.HostPathProvisioner) (layout, error) {
	l := layoutOf(cr)
	had, err := r.offered(ctx)
	if err != nil {
		return l, err
	}
	if l.drops(had) {
		u, err := r.recent(ctx, l, had)
		if err != nil {
			return l, err
		}
		l.retain(had, u)
	}
	settings, err := r.settings(ctx)
	l.tune(settings)
	return l, err
}

// offered returns what the agents offer now, according to their DaemonSet.
func (r *Reconciler) offered(ctx context.Context) (l layout, err error) {
	ds, err := r.installed(ctx)
	if err != nil || ds == nil {
		return l, err
	}
	return offeredBy(ds.Spec.Template.Spec), nil
}

// offeredBy returns what the agent of the pod offers.
func offeredBy(pod corev1.PodSpec) (l layout) {
	for _, c := range pod.Containers {
		for _, v := range c.Env {
			switch {
			case v.Name == "DATADIR" && json.Unmarshal([]byte(v.Value), &l.pools) != nil:
				return layout{} // it is not the operator's, which replaces it
			case v.Name == "PV_DIR" && filepath.IsAbs(v.Value):
				l.pvDir = v.Value
			case v.Name == "USE_NAMING_PREFIX":
				l.prefix = v.Value == "true"
			}
		}
	}
	return l
}

// drops reports whether the layout lacks something of the one before.
func (l *layout) drops(had layout) bool {
	for _, p := range had.pools {
		if !slices.Contains(l.pools, p) {
			return true
		}
	}
	return had.pvDir != "" && had.pvDir != l.pvDir
}

// usage is what volumes use: how many PVs and pods with inline volumes name each pool, and how many PVs are hostPath PVs.
type usage struct {
	pools, inline map[string]int
	hostPath      int
}

// of describes what uses the pool, or returns "".
func (u usage) of(pool string) string {
	var all []string
	if n := u.pools[pool]; n > 0 {
		all = append(all, fmt.Sprintf("%d PVs", n))
	}
	if n := u.inline[pool]; n > 0 {
		all = append(all, fmt.Sprintf("%d pods with inline volumes", n))
	}
	return strings.Join(all, " and ")
}

// usage reads from the API server what uses the pools.
func (r *Reconciler) usage(ctx context.Context) (usage, error) {
	u := usage{pools: map[string]int{}, inline: map[string]int{}}
	err := r.eachPV(ctx, func(pv *corev1.PersistentVolume) {
		if pv.Spec.CSI == nil {
			u.hostPath++
			return
		}
		u.pools[identity.PoolOf(pv.Spec.CSI.VolumeAttributes)]++
	})
	if err != nil {
		return u, err
	}
	return u, r.eachInline(ctx, func(_ *corev1.Pod, pools []string) {
		for _, pool := range pools {
			u.inline[pool]++
		}
	})
}

// retain adds what volumes use. A pool of the resource with that name or path is left out meanwhile: the agent refuses two names
// for one directory.
func (l *layout) retain(had layout, u usage) {
	for _, p := range had.pools {
		users := u.of(p.Name)
		if users == "" || slices.Contains(l.pools, p) {
			continue
		}
		text := fmt.Sprintf("pool %s stays at %s until its %s are deleted", p.Name, filepath.Dir(p.Path), users)
		l.pools = slices.DeleteFunc(l.pools, func(q pool) bool {
			instead := q.Name != p.Name && q.Path == p.Path
			if instead {
				text += fmt.Sprintf("; pool %s, which has the same path, is offered then", q.Name)
			}
			return instead || q.Name == p.Name
		})
		l.pools = append(l.pools, p)
		l.retained = append(l.retained, text)
	}
	if had.pvDir != "" && had.pvDir != l.pvDir && u.hostPath > 0 {
		l.pvDir, l.prefix = had.pvDir, had.prefix
		l.retained = append(l.retained, fmt.Sprintf("hostPath volumes stay in %s until their %d PVs are deleted", had.pvDir, u.hostPath))
	}
	slices.SortFunc(l.pools, func(a, b pool) int { return strings.Compare(a.Name, b.Name) })
}
