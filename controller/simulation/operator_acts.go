package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// operatorActs are what happens to an installation by the operator. "install" begins one.
var operatorActs = []act{
	{words: "install", usage: "POOL...: the operator installs the agents, with pools such as a=/a b=/b+claim or legacy=/hp",
		draw: func(*World) []string { return nil },
		do: func(w *World, args []string) bool {
			if w.kind != ofInstalled || w.inst.Load() != nil || arg(args, 0) == "" {
				return false
			}
			return newInstalled(w).resource(args)
		}},
	installedAct("resource", "POOL...: its pools are changed to these", 5, drawPools,
		func(i *installed, args []string) bool { return i.resource(args) }).then("claim", "pod ends"),
	installedAct("resource delete", "[force]: it is deleted", 1, func(w *World) []string { return pick(w, [][]string{{}, {"force"}}) },
		func(i *installed, args []string) bool { return i.deleteResource(len(args) > 0) }),
	installedAct("setting", "KEY [VALUE]: a setting is changed, or removed; it may be misspelt", 2, func(w *World) []string {
		return pick(w, [][]string{{"nodeGoneGrace", "1d"}, {"nodeGoneGrace", "24h"}, {"nodeGoneGrace"}, {"PV_RECLAIM_POLICY", "Retain"},
			{"PV_RECLAIM_POLICY", "retain"}, {"PV_RECLAIM_POLICY"}, {"HPP_ORPHANS", "delete"}, {"HPP_ORPHAN_GRACE", "10m"},
			{"HPP_TRASH_RETENTION", "1h"}, {"HPP_TRASH_RETENTION"}, {"MIGRATE_TO_CSI", "run"}, {"MIGRATE_TO_CSI", "back"}})
	}, func(i *installed, args []string) bool { return i.setting(arg(args, 0), strings.Join(args[1:], " ")) }),
	installedAct("workload", "NODE on|off: it is to have an agent, or none", 2, func(w *World) []string {
		return []string{pick(w, w.nodes).name, pick(w, []string{"on", "off"})}
	}, func(i *installed, args []string) bool {
		return i.editNode(arg(args, 0), func(o *corev1.Node) { o.Labels[noAgent] = arg(args, 1) })
	}).then("workload"),
	installedAct("operator version", "VERSION: both replicas are replaced", 2, func(w *World) []string { return []string{pick(w, []string{"v1", "v2"})} },
		func(i *installed, args []string) bool { i.operate(arg(args, 0)); return true }),
	installedAct("operator kill", "1|2: that replica is killed, and starts again", 1, func(w *World) []string { return []string{pick(w, []string{"1", "2"})} },
		func(i *installed, args []string) bool {
			n := number(arg(args, 0)) - 1
			if n < 0 || n > 1 {
				return false
			}
			i.stopOperator(int(n), true)
			i.startOperator(int(n))
			return true
		}),
	installedAct("pod hangs", "NODE: its agent's pods do not end", 1, aMachine, func(i *installed, args []string) bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.hangs[arg(args, 0)] = i.node(args[0]) != nil
		return i.hangs[args[0]]
	}).then("resource"),
	installedAct("pod ends", "NODE: they end again", 1, aMachine, func(i *installed, args []string) bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.hangs, arg(args, 0))
		sleep.Wake(i.wake)
		return true
	}),
	installedAct("machine off", "NODE: it loses its power, and its mounts", 1, aMachine, func(i *installed, args []string) bool {
		n := i.node(arg(args, 0))
		if n == nil || n.off {
			return false
		}
		i.power(n, false)
		for path := range n.mounts {
			n.unmount(path)
		}
		return true
	}),
	installedAct("machine on", "NODE", 2, aMachine, func(i *installed, args []string) bool {
		n := i.node(arg(args, 0))
		if n == nil || !n.off || !n.absent.IsZero() {
			return false
		}
		i.power(n, true)
		return true
	}),
	installedAct("delete disk", "NODE/POOL: the claim of a pool's disk is deleted by mistake", 1, func(w *World) []string {
		return []string{pick(w, w.nodes).name + "/" + pick(w, []string{"b", "c"})}
	}, func(i *installed, args []string) bool {
		node, pool, _ := strings.Cut(arg(args, 0), "/")
		claims := i.god.CoreV1().PersistentVolumeClaims(namespace)
		return claims.Delete(ctx, "hpp-pool-"+pool+"-"+node, metav1.DeleteOptions{}) == nil
	}),
	installedAct("webhook adds", "container: a broken webhook adds one more container to a DaemonSet at each write", 1,
		func(*World) []string { return []string{"container"} }, func(i *installed, _ []string) bool { return i.hook("adds", true, addContainer) }).
		then("resource", "operator version"),
	installedAct("jobs hang", "on|off: pods of Jobs do not start", 1, func(w *World) []string { return []string{pick(w, []string{"on", "off"})} },
		func(i *installed, args []string) bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.jobless = arg(args, 0) == "on"
			sleep.Wake(i.wake)
			return true
		}),
}

// addContainer adds a container to a DaemonSet that is written.
func addContainer(x *apiserver.Write) error {
	if x.Resource == "daemonsets" && x.Subresource == "" && x.New != nil {
		pod := x.New["spec"].(object)["template"].(object)["spec"].(object)
		all, _ := pod["containers"].([]any)
		pod["containers"] = append(slices.Clone(all), object{"name": fmt.Sprint("added-", len(all)), "image": "added:1"})
	}
	return nil
}

// installedAct is an act that needs an installation.
func installedAct(words, usage string, weight int, draw func(*World) []string, do func(*installed, []string) bool) act {
	return act{words: words, usage: usage, weight: weight,
		draw: func(w *World) []string {
			if w.inst.Load() == nil {
				return nil
			}
			return draw(w)
		},
		do: func(w *World, args []string) bool {
			i := w.inst.Load()
			return i != nil && do(i, args)
		}}
}

func aMachine(w *World) []string { return []string{pick(w, w.nodes).name} }

// noAgent is the label of Nodes that are to have no agent if its value is off.
const noAgent = "simulated/agent"

// drawPools draws pools whose paths and disks change often.
func drawPools(w *World) (pools []string) {
	a := pick(w, []string{"a=/a", "a=/a", "a=/a+claim", "a=/d"})
	b := pick(w, []string{"b=/b+claim", "b=/b+claim", "b=/z+claim", "b=/b", ""})
	c := pick(w, []string{"", "", "c=/b+claim", "c=/c+claim", "c=/c"})
	for _, p := range []string{a, b, c} {
		if p != "" && (!strings.HasPrefix(c, "c=/b") || !strings.HasPrefix(b, "b=/b") || p != c) {
			pools = append(pools, p)
		}
	}
	return pools
}

// spec is that of a resource with the pools.
func spec(pools []string) (s v1beta1.HostPathProvisionerSpec) {
	s.Workload.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: noAgent, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"off"}}}}}}}}
	for _, p := range pools {
		name, path, _ := strings.Cut(p, "=")
		path, claim := strings.CutSuffix(path, "+claim")
		if name == "legacy" {
			s.PathConfig = &v1beta1.PathConfig{Path: path}
			continue
		}
		pool := v1beta1.StoragePool{Name: name, Path: path}
		if claim {
			pool.PVCTemplate = &corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(diskClass),
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
		}
		s.StoragePools = append(s.StoragePools, pool)
	}
	return s
}

// resource creates the resource with the pools, or changes it. The webhook may refuse that.
func (i *installed) resource(pools []string) bool {
	cr := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hostpath-provisioner"}}
	switch err := i.people.Get(ctx, client.ObjectKeyFromObject(cr), cr); {
	case apierrors.IsNotFound(err):
		cr.Spec = spec(pools)
		return i.people.Create(ctx, cr) == nil
	case err != nil || cr.DeletionTimestamp != nil:
		return false
	}
	before := cr.DeepCopy()
	cr.Spec = spec(pools)
	return i.people.Patch(ctx, cr, client.MergeFrom(before)) == nil
}

func (i *installed) deleteResource(force bool) bool {
	cr := &v1beta1.HostPathProvisioner{}
	if i.people.Get(ctx, client.ObjectKey{Name: "hostpath-provisioner"}, cr) != nil {
		return false
	}
	if before := cr.DeepCopy(); force {
		cr.Annotations = map[string]string{forced: "true"}
		must(i.people.Patch(ctx, cr, client.MergeFrom(before)))
	}
	i.forgot, i.forced = true, i.forced || force
	return i.people.Delete(ctx, cr) == nil
}

// setting changes the ConfigMap. The judge knows what a misspelt value means.
func (i *installed) setting(key, value string) bool {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hostpath-provisioner-settings"}}
	err := i.people.Get(ctx, client.ObjectKeyFromObject(m), m)
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	if m.Data[key] = value; value == "" {
		delete(m.Data, key)
	}
	switch key {
	case "PV_RECLAIM_POLICY":
		i.retains = strings.EqualFold(value, "Retain")
	case "nodeGoneGrace":
		i.judge.mu.Lock()
		i.judge.grace = grace
		if value != "" {
			i.judge.grace *= 24 * 12 // all that are set mean a day
		}
		i.judge.mu.Unlock()
	}
	if err != nil {
		return i.people.Create(ctx, m) == nil
	}
	return i.people.Update(ctx, m) == nil
}
