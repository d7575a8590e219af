package simulation

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// saved is a backup of etcd, and the Nodes of that moment.
type saved struct {
	objects apiserver.Snapshot
	nodes   []string
}

// backupActs are what people do after an accident of the control plane, and what events ask them for.
var backupActs = []act{
	{words: "etcd backup", usage: "a backup of etcd is made", weight: 1, next: []string{"claim", "delete claim", "etcd restore", "policy"},
		draw: func(*World) []string { return []string{} },
		do: func(w *World, _ []string) bool {
			w.saved = &saved{w.API.Snapshot(), w.uids()}
			return true
		}},
	{words: "etcd restore", usage: "etcd is restored from the last backup, while the same Nodes are there", weight: 2, next: []string{"delete claim", "etcd restore"},
		draw: func(*World) []string { return []string{} },
		do: func(w *World, _ []string) bool {
			if w.saved == nil || !slices.Equal(w.saved.nodes, w.uids()) || w.kind != ofAgents {
				return false
			}
			w.restored = true
			w.API.Restore(w.saved.objects)
			w.judge.restored(w.API.Objects("persistentvolumes"))
			pods := w.god.CoreV1().Pods(namespace)
			must(pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
			for _, n := range w.nodes {
				if n.agent != nil {
					w.makePod(n)
				}
			}
			w.judge.poke()
			return true
		}},
	nodeAct("hostnames swap", " NODE: their hostname labels change places", 1, (*node).there, func(w *World, n *node, args []string) bool {
		other := w.node(arg(args, 0))
		if other == nil || other == n || other.gone() {
			return false
		}
		host := func(n *node) string {
			return must1(w.god.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})).Labels[corev1.LabelHostname]
		}
		this, that := host(n), host(other)
		n.renamed, other.renamed = true, true
		return w.editNode(n.name, func(o *corev1.Node) { o.Labels[corev1.LabelHostname] = that }) &&
			w.editNode(other.name, func(o *corev1.Node) { o.Labels[corev1.LabelHostname] = this })
	}).with(func(w *World) string { return pick(w, w.nodes).name }).then("agent restart", "delete claim"),
	{words: "obey", usage: "CLAIM|NODE: an administrator runs the commands of the last event about it or its PV, unless it deletes", weight: 2,
		draw: func(w *World) []string {
			if w.rnd.IntN(3) == 0 {
				return []string{pick(w, w.nodes).name}
			}
			return w.aPV()
		},
		do: func(w *World, args []string) bool { return w.obey(arg(args, 0)) }},
}

// uids are those of the Nodes.
func (w *World) uids() (all []string) {
	for _, n := range w.nodes {
		all = append(all, string(n.uid)+n.absent.String())
	}
	return all
}

// restored forgets the PVs that a backup does not have, and knows those again that it has. What was
// deleted since the backup may be there again, without its data.
func (j *judge) restored(pvs []object) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tenant, j.older = j.world.tenantUID(), true
	j.pvs = map[string]*volume{}
	for _, pv := range pvs {
		x := apiserver.Write{Who: "god", Name: field(pv, "metadata", "name"), New: pv}
		if v := j.volumeOf(x); v != nil {
			j.pvs[x.Name] = v
			v.policy, v.edited = field(pv, "spec", "persistentVolumeReclaimPolicy"), true
		}
	}
}

// isForeign reports whether the PV was made in another cluster.
func (j *judge) isForeign(pv string) bool {
	v := j.volumeOfPV(pv)
	return v != nil && v.foreign
}

var command = regexp.MustCompile(`kubectl (annotate|label) (?:--overwrite )?(pv|node) (\S+) ([^\s=]+)=([^\s;,)]+)`)

// obey runs the commands of the last event that has one. An administrator does not delete data, and
// gives up only a disk that is away.
func (w *World) obey(name string) bool {
	about := []string{name}
	if pv := w.pvOf(name); pv != nil {
		about = append(about, pv.Name)
	}
	var found [][]string
	latest := ""
	for _, e := range w.API.Objects("events") {
		all := command.FindAllStringSubmatch(field(e, "message"), -1)
		if at := field(e, "lastTimestamp"); len(all) > 0 && at >= latest && slices.Contains(about, field(e, "involvedObject", "name")) {
			found, latest = all, at
		}
	}
	done := false
	for _, c := range found {
		key, value := c[4], strings.TrimRight(c[5], ".")
		change := func(m *metav1.ObjectMeta) {
			if done = true; c[1] == "label" {
				metav1.SetMetaDataLabel(m, key, value)
			} else {
				metav1.SetMetaDataAnnotation(m, key, value)
			}
		}
		n := w.node(c[3])
		switch {
		case key == contract.AnnDeleteVolume, key == contract.AnnGiveUp && (n == nil || len(n.away) == 0):
		case key == contract.AnnCluster && w.judge.isForeign(c[3]): // the event asks for it if the node was one of this cluster
		case c[2] == "node":
			w.editNode(c[3], func(o *corev1.Node) { change(&o.ObjectMeta) })
		default:
			if pv, err := w.god.CoreV1().PersistentVolumes().Get(ctx, c[3], metav1.GetOptions{}); err == nil {
				change(&pv.ObjectMeta)
				_, _ = w.god.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}) // a conflict is tried by the next
			}
		}
	}
	return done
}
