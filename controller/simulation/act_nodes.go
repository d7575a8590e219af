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
	nodeAct("node delete", ": its Node is deleted, and its agent ends", 3, (*node).there, func(w *World, n *node, _ []string) bool {
		w.stopAgent(n)
		w.deleteNode(n)
		return true
	}).then("node make"),
	nodeAct("node make", ": it registers again, with another UID, and its agent starts", 2, (*node).gone, func(w *World, n *node, _ []string) bool {
		if w.makeNode(n); !n.runs() {
			w.startAgent(n)
		}
		return true
	}),
	nodeAct("node blink", ": its Node is deleted and registers again at once, and its agent runs on", 1, (*node).there, func(w *World, n *node, _ []string) bool {
		w.deleteNode(n)
		time.Sleep(10 * time.Second)
		w.makeNode(n)
		return true
	}),
	nodeAct("hostname", " NAME: its hostname label changes", 1, (*node).there, func(w *World, n *node, args []string) bool {
		n.renamed = true
		return w.editNode(n.name, func(o *corev1.Node) { o.Labels[corev1.LabelHostname] = arg(args, 0) })
	}).with(func(w *World) string { return "host-" + pick(w, w.nodes).name }),
	{words: "disk away", usage: "NODE/POOL: its disk does not answer: an empty directory is there, and the agent starts again", weight: 4, next: []string{"give up pool", "policy", "delete claim"},
		draw: func(w *World) []string { return w.aDisk(false) },
		do:   func(w *World, args []string) bool { return w.moveDisk(arg(args, 0), true) }},
	{words: "disk back", usage: "NODE/POOL: its disk is there again", weight: 3,
		draw: func(w *World) []string { return w.aDisk(true) },
		do:   func(w *World, args []string) bool { return w.moveDisk(arg(args, 0), false) }},
	{words: "give up pool", usage: "NODE/POOL: an administrator gives up a disk that is away, by the pool's UUID", weight: 3, next: []string{"disk back"},
		draw: func(w *World) []string { return w.aDisk(true) },
		do: func(w *World, args []string) bool {
			n, pool := w.disk(arg(args, 0))
			if n == nil || n.away[pool].IsZero() {
				return false
			}
			id := w.poolID(n, pool)
			return id != "" && w.editNode(n.name, func(o *corev1.Node) { o.Annotations[contract.AnnGiveUp] = id })
		}},
	nodeAct("give up node", ": an administrator gives up what was on an earlier Node of that name", 1,
		func(n *node) bool { return n.there() && len(n.away) > 0 }, func(w *World, n *node, _ []string) bool {
			return w.editNode(n.name, func(o *corev1.Node) { o.Annotations[contract.AnnGiveUp] = string(o.UID) })
		}),
}

// nodeAct returns an act whose first argument is a node that fits.
func nodeAct(words, usage string, weight int, fits func(*node) bool, do func(*World, *node, []string) bool) act {
	return act{words: words, usage: "NODE" + usage, weight: weight,
		draw: func(w *World) []string { return w.aNode(fits) },
		do: func(w *World, args []string) bool {
			n := w.node(arg(args, 0))
			return n != nil && fits(n) && do(w, n, args[1:])
		}}
}

// with returns the act with one more argument.
func (a act) with(more func(*World) string) act {
	draw := a.draw
	a.draw = func(w *World) []string {
		if args := draw(w); args != nil {
			return append(args, more(w))
		}
		return nil
	}
	return a
}

// then returns the act with acts that often follow.
func (a act) then(next ...string) act { a.next = next; return a }

func (n *node) there() bool { return n.absent.IsZero() }
func (n *node) gone() bool  { return !n.absent.IsZero() }
func (n *node) runs() bool  { return n.agent != nil }

func (n *node) hasDisks() bool { return n.runs() && len(n.away) == 0 }

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
