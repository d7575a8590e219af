package simulation

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// unmounted judges that a Job unmounted a disk. After a deletion by force it may, if the PV is gone, too.
func (j *judge) unmounted(n *node, disk string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	forced := j.world.inst.Load().forced
	for _, v := range j.volumes {
		named := false
		for _, of := range j.pvs {
			named = named || of == v
		}
		if forced && !named {
			continue
		}
		if !v.removed.IsZero() {
			continue // nothing names the volume any more, and its claim is Lost
		}
		if v.node == n.name && v.disk == disk && v.mark != "" && v.wanted == "" && v.given == "" {
			j.blameLocked("HIDDEN", "the disk with the volume of claim %s, pool %s of %s, is unmounted", v.name, v.pool, v.node)
		}
	}
}

// afterFaults judges an installation an hour after the last fault.
func (i *installed) afterFaults() {
	var all objects
	must(i.people.List(ctx, &all.claims))
	must(i.people.List(ctx, &all.deployments))
	bound := map[types.UID]bool{}
	for _, c := range all.claims.Items {
		bound[c.UID] = c.Status.Phase == corev1.ClaimBound
	}
	i.judge.mu.Lock()
	defer i.judge.mu.Unlock()
	for _, v := range i.judge.volumes {
		n := i.node(v.node)
		if n != nil && v.disk == "" && !n.away[n.pool(v.path)].IsZero() && !v.removed.IsZero() {
			continue // while no PV named the pool of the missing disk, another one was founded in its place
		}
		if v.path != "" && v.mark != "" && bound[v.claim] && n != nil && n.agent != nil {
			if at := n.agent.paths[v.pool]; at == "" || filepath.Join(at, v.dir) != i.judge.place(v) {
				i.judge.blameLocked("HIDDEN", "the volume of claim %s is not where the agent of %s has pool %s", v.name, v.node, v.pool)
			}
		}
	}
	must(i.people.List(ctx, &all.volumes))
	for _, pv := range all.volumes.Items {
		v := i.judge.pvs[pv.Name]
		if v == nil || v.path == "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || pv.Status.Phase != corev1.VolumeReleased || i.forgot {
			continue
		}
		if n := i.node(v.node); n != nil && n.agent != nil && n.agent.paths[v.pool] == "" {
			i.judge.blameLocked("STUCK", "PV %s is Released, and no agent of %s has pool %s any more", pv.Name, v.node, v.pool)
		}
	}
	var crs v1beta1.HostPathProvisionerList
	must(i.people.List(ctx, &crs))
	for _, n := range i.nodes {
		for path, m := range n.mounts {
			i.mounted(&all, crs.Items, n, path, m)
		}
	}
}

// mounted judges that a disk which is mounted has a pool or volumes, and a holder. As the page says, it
// may stay mounted where the Node was gone or not ready, and after a deletion by force. The caller
// holds the judge's lock.
func (i *installed) mounted(all *objects, crs []v1beta1.HostPathProvisioner, n *node, path string, m diskMount) {
	used := slices.ContainsFunc(i.judge.volumes, func(v *volume) bool { return v.disk == m.disk && v.mark != "" && v.wanted == "" })
	for _, v := range i.judge.pvs { // a PV that is kept keeps the pool on all nodes, whatever became of its volume
		used = used || v.pool == m.owner.Pool
	}
	wants := func(p v1beta1.StoragePool) bool { return p.PVCTemplate != nil && n.base+p.Path+"/csi" == path }
	if len(crs) == 1 && !slices.ContainsFunc(crs[0].Spec.StoragePools, wants) && !used && !n.lost {
		i.judge.blameLocked("STUCK", "the disk of pool %s of %s stays mounted, and no pool is to be there", m.owner.Pool, n.name)
	}
	holds := func(d appsv1.Deployment) bool {
		pod := d.Spec.Template.Spec
		rest, _ := filepath.Rel(n.base, path)
		return slices.Contains(pod.Containers[0].Args, "--path=/"+rest) && all.on(&pod, n)
	}
	if !slices.ContainsFunc(all.deployments.Items, holds) && !i.forced && !n.lost {
		i.judge.blameLocked("STUCK", "the disk of pool %s of %s stays mounted, and nothing knows it", m.owner.Pool, n.name)
	}
}

// locate notes where the agent of that name made a volume, and judges whose disk that is. The caller
// holds the judge's lock.
func (i *installed) locate(who string, v *volume) {
	living, ok := i.faults.living.Load(who)
	if !ok || living.(*process).paths[v.pool] == "" {
		return
	}
	n, path := living.(*process).node, living.(*process).paths[v.pool]
	v.path = filepath.Join(path, v.dir)
	n.mu.Lock()
	defer n.mu.Unlock()
	if m, is := n.mounts[path]; is {
		v.disk, v.path = m.disk, v.dir
		if m.owner.Pool != "" && m.owner.Pool != v.pool {
			i.judge.blameLocked("HIDDEN", "a volume of pool %s is made on the disk of pool %s", v.pool, m.owner.Pool)
		}
	}
}

// on reports whether pods of the template are on the machine.
func (*objects) on(pod *corev1.PodSpec, n *node) bool {
	o := &corev1.Node{}
	o.Name = n.name
	return fits(&corev1.PodSpec{Affinity: pod.Affinity}, o)
}

// patience is how long a node may run older agents, and a deletion by force may take, although
// nothing is wrong there.
const patience = time.Hour

// rollouts judges at each pass that agents are replaced: what is wrong with the disk of one node does
// not keep others from an update. A pod that does not end may, and the conditions name its node.
func (i *installed) rollouts(all *objects) {
	now := time.Now()
	for k := range all.sets.Items {
		ds := &all.sets.Items[k]
		blocked := ds.DeletionTimestamp != nil || ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
		for _, pod := range all.owned(ds) {
			n := i.node(pod.Spec.NodeName)
			blocked = blocked || pod.DeletionTimestamp != nil || n == nil || n.off || !n.absent.IsZero()
		}
		for _, pod := range all.owned(ds) {
			key, n := "rollout "+pod.Spec.NodeName, i.node(pod.Spec.NodeName)
			if blocked || len(n.away) > 0 || pod.Labels[revisionLabel] == revision(&ds.Spec.Template) || !contract.PodReady(pod) {
				delete(i.since, key)
				continue
			}
			i.overdue(key, now, "ROLLOUT", "the agent of %s is not replaced by one of the new template, and nothing is wrong there%s", n.name, i.moves(all))
		}
	}
	for _, cr := range all.resources.Items {
		if cr.DeletionTimestamp == nil || cr.Annotations[forced] != "true" || i.anyHangs() {
			delete(i.since, "force")
			continue
		}
		i.overdue("force", now, "STUCK", "a resource that is deleted by force is still there: %s", saysOf(&cr))
	}
}

// anyHangs reports whether the pods of a machine do not end: the deletion waits for them, and names the
// node. The caller holds i.mu.
func (i *installed) anyHangs() bool {
	return slices.Contains(slices.Collect(maps.Values(i.hangs)), true)
}

// saysOf returns what the conditions of a resource say.
func saysOf(cr *v1beta1.HostPathProvisioner) string {
	var all []string
	for _, c := range cr.Status.Conditions {
		all = append(all, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "; ")
}

// moves says if a pool is to be at another path than an agent has it.
func (i *installed) moves(all *objects) string {
	for _, cr := range all.resources.Items {
		for _, p := range cr.Spec.StoragePools {
			for _, n := range i.nodes {
				if n.agent != nil && n.agent.paths[p.Name] != "" && n.agent.paths[p.Name] != n.base+p.Path+"/csi" {
					return "; a pool moves"
				}
			}
		}
	}
	return ""
}

// overdue blames what lasts for too long.
func (i *installed) overdue(key string, now time.Time, rule, format string, args ...any) {
	if i.since[key].IsZero() {
		i.since[key] = now
	}
	if now.Sub(i.since[key]) > patience {
		i.judge.blame(rule, format, args...)
		i.since[key] = now.Add(24 * time.Hour)
	}
}

const forced = "hostpathprovisioner.kubevirt.io/force-deletion"

// settingOf judges the policy of a PV that an agent made: a setting that is misspelt keeps its last
// value. The caller holds the judge's lock.
func (i *installed) settingOf(v *volume) {
	if n := i.node(v.node); n != nil && i.retains && n.retains && v.policy != string(corev1.PersistentVolumeReclaimRetain) {
		i.judge.blameLocked("SETTING", "the PV of claim %s has policy %s, and PV_RECLAIM_POLICY was Retain before it was misspelt", v.name, v.policy)
	}
}
