package simulation

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// nodeActs are what happens to machines and their disks.
var nodeActs = []act{
	{words: "node delete", usage: "NODE: its Node is deleted, and its agent ends", weight: 3, next: "node make",
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return n.absent.IsZero() }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || !n.absent.IsZero() {
				return false
			}
			w.stopAgent(n)
			w.deleteNode(n)
			return true
		}},
	{words: "node make", usage: "NODE: it registers again, with another UID, and its agent starts", weight: 2,
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return !n.absent.IsZero() }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || n.absent.IsZero() {
				return false
			}
			w.makeNode(n)
			w.startAgent(n)
			return true
		}},
	{words: "node blink", usage: "NODE: its Node is deleted and registers again at once, and its agent runs on", weight: 1,
		draw: func(w *World) []string { return w.aNode(func(n *node) bool { return n.absent.IsZero() }) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			if n == nil || !n.absent.IsZero() {
				return false
			}
			w.deleteNode(n)
			time.Sleep(10 * time.Second)
			w.makeNode(n)
			return true
		}},
	{words: "hostname", usage: "NODE NAME: its hostname label changes", weight: 1,
		draw: func(w *World) []string {
			if n := w.aNode(func(n *node) bool { return n.absent.IsZero() }); n != nil {
				return append(n, "host-"+pick(w, w.nodes).name)
			}
			return nil
		},
		do: func(w *World, args []string) bool {
			return w.editNode(arg(args, 0), func(o *corev1.Node) {
				o.Labels[corev1.LabelHostname] = arg(args, 1)
				w.node(o.Name).renamed = true
			})
		}},
	{words: "disk away", usage: "NODE/POOL: its disk does not answer: an empty directory is there, and the agent starts again", weight: 4, next: "give up pool",
		draw: func(w *World) []string { return w.aDisk(false) },
		do:   func(w *World, args []string) bool { return w.moveDisk(arg(args, 0), true) }},
	{words: "disk back", usage: "NODE/POOL: its disk is there again", weight: 3,
		draw: func(w *World) []string { return w.aDisk(true) },
		do:   func(w *World, args []string) bool { return w.moveDisk(arg(args, 0), false) }},
	{words: "give up pool", usage: "NODE/POOL: an administrator gives up a disk that is away, by the pool's UUID", weight: 3, next: "disk back",
		draw: func(w *World) []string { return w.aDisk(true) },
		do: func(w *World, args []string) bool {
			n, pool := w.disk(arg(args, 0))
			if n == nil || n.away[pool].IsZero() {
				return false
			}
			id := w.poolID(n, pool)
			return id != "" && w.editNode(n.name, func(o *corev1.Node) { o.Annotations[contract.AnnGiveUp] = id })
		}},
	{words: "give up node", usage: "NODE: an administrator gives up what was on an earlier Node of that name", weight: 1,
		draw: func(w *World) []string {
			return w.aNode(func(n *node) bool { return n.absent.IsZero() && len(n.away) > 0 })
		},
		do: func(w *World, args []string) bool {
			return w.editNode(arg(args, 0), func(o *corev1.Node) { o.Annotations[contract.AnnGiveUp] = string(o.UID) })
		}},
}

func (w *World) aNode(fits func(*node) bool) []string {
	var names []string
	for _, n := range w.nodes {
		if fits(n) {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{pick(w, names)}
}

// aDisk draws a disk that is away, or one that is there.
func (w *World) aDisk(away bool) []string {
	var all []string
	for _, n := range w.nodes {
		for _, pool := range pools[:2] {
			if !n.away[pool].IsZero() == away {
				all = append(all, n.name+"/"+pool)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{pick(w, all)}
}

func (w *World) disk(name string) (*node, string) {
	node, pool, _ := strings.Cut(name, "/")
	return w.node(node), pool
}

// moveDisk takes a disk away or puts it back. The agent starts again, as after a boot.
func (w *World) moveDisk(name string, away bool) bool {
	n, pool := w.disk(name)
	if n == nil || n.away[pool].IsZero() != away {
		return false
	}
	path := filepath.Join(n.base, pool)
	for _, at := range []string{path, filepath.Join(path, "csi")} {
		if _, err := os.Stat(filepath.Join(at, ".hostpath-provisioner")); err == nil && !away || n.mounted(at) == nil {
			return false // a new pool is there, or one on a disk of its own
		}
	}
	running := n.agent != nil || w.inst.Load() != nil && !n.off
	w.stopAgent(n)
	if away {
		must(os.Rename(path, path+".away"))
		must(os.Mkdir(path, 0o755))
		n.away[pool] = time.Now()
	} else {
		must(os.RemoveAll(path))
		must(os.Rename(path+".away", path))
		delete(n.away, pool)
	}
	if running {
		w.startAgent(n)
	}
	return true
}

// editNode changes a Node, if there is one.
func (w *World) editNode(name string, change func(*corev1.Node)) bool {
	o, err := w.god.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	change(o)
	if _, err = w.god.CoreV1().Nodes().Update(ctx, o, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
		return w.editNode(name, change)
	}
	must(err)
	return true
}

// poolID is the UUID of a pool by the PVs of its volumes, "" if none has it.
func (w *World) poolID(n *node, pool string) (id string) {
	for _, pv := range must1(w.god.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})).Items {
		if v := w.judge.volumeOfPV(pv.Name); v != nil && v.node == n.name && v.pool == pool && pv.Annotations[contract.AnnPool] != "" {
			id = pv.Annotations[contract.AnnPool]
		}
	}
	return id
}

func (j *judge) volumeOfPV(pv string) *volume {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pvs[pv]
}
