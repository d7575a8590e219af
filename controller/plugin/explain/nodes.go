package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Node is what a node has for the claim.
type Node struct {
	Name  string `json:"name"`
	Ready string `json:"ready"`
	Agent string `json:"agent"`
	Pool  string `json:"pool,omitempty"`
	// Available is in bytes; nil if it is not known.
	Available *int64 `json:"available,omitempty"`
	// Excluded says why the pod of the claim may not run there, whatever the node has; "" if it may.
	Excluded string `json:"excluded,omitempty"`
	// Lacks is what keeps the node from holding the volume; empty if nothing does.
	Lacks []Lack `json:"lacks,omitempty"`
}

// Lack is one thing that keeps a node from holding the volume.
type Lack struct {
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
	// kind is that of lacks that are alike on several nodes.
	kind string
}

// lacks adds what the node lacks. do is what to do about it.
func (n *Node) lacks(kind, do, format string, args ...any) {
	n.Lacks = append(n.Lacks, Lack{What: fmt.Sprintf(format, args...), Do: do, kind: kind})
}

// Text returns why the node cannot hold the volume, "" if it can. If the pod may not run there,
// nothing else matters.
func (n *Node) Text() string {
	if n.Excluded != "" {
		return n.Excluded
	}
	var all []string
	for _, l := range n.Lacks {
		all = append(all, l.What)
	}
	return strings.Join(all, "; ")
}

// judgeAll judges the node of that name, or all if it is "", in place of those that were judged before.
func (e *explanation) judgeAll(name string) {
	e.answer.Nodes = nil
	for i := range e.Nodes.Items {
		n := &e.Nodes.Items[i]
		if name == "" && n.Labels[corev1.LabelOSStable] != "windows" || n.Name == name {
			e.answer.Nodes = append(e.answer.Nodes, e.judge(n.Name, e.pod()))
		}
	}
}

// candidates judges the node of that name, or all if it is "", and adds the cause if none can hold
// the volume. It reports whether one can.
func (e *explanation) candidates(name string) bool {
	e.judgeAll(name)
	var lacking []Node
	excluded := 0
	for _, n := range e.answer.Nodes {
		switch {
		case n.Excluded != "":
			excluded++
		case len(n.Lacks) > 0:
			lacking = append(lacking, n)
		default:
			return true
		}
	}
	whose, only := "", ""
	if excluded > 0 {
		whose, only = fmt.Sprintf(" that pod %s may use", e.pod().Name), ", the only one"
	}
	switch {
	case len(e.answer.Nodes) == 0:
	case len(lacking) == 0:
		e.add(Cause, "correct the nodeSelector, the affinity or the tolerations of the pod", "pod %s may run on no node: %s",
			e.pod().Name, e.answer.Nodes[0].Excluded)
	case len(lacking) == 1:
		if whose != "" {
			whose += ","
		}
		e.add(Cause, lacking[0].Lacks[0].Do, "node %s%s%s cannot hold the volume: %s", lacking[0].Name, only, whose,
			lacking[0].Text())
	default:
		most, count := commonest(lacking)
		text := most.What
		if count < len(lacking) {
			text += fmt.Sprintf(" (%d of them)", count)
		}
		e.add(Cause, most.Do, "none of the %s%s can hold the volume: %s", events.Count(len(lacking), "node"), whose, text)
	}
	return false
}

// commonest returns what the most nodes lack first, as the first of them has it, and their number.
func commonest(judged []Node) (most Lack, times int) {
	count, first := map[string]int{}, map[string]Lack{}
	for _, n := range judged {
		l := n.Lacks[0]
		if count[l.kind]++; count[l.kind] == 1 {
			first[l.kind] = l
		}
		if count[l.kind] > times {
			most, times = first[l.kind], count[l.kind]
		}
	}
	return most, times
}

// pod returns a pod that uses the claim and can start, nil if there is none. One that the scheduler may
// place comes before the others.
func (e *explanation) pod() *corev1.Pod {
	starts := func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }
	if p := e.Users.Find(func(p *corev1.Pod) bool {
		return starts(p) && p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0
	}); p != nil {
		return p
	}
	return e.Users.Find(starts)
}

// judge finds what the node lacks for the claim, and whether the pod that will use it may run
// there.
func (e *explanation) judge(name string, pod *corev1.Pod) Node {
	j := Node{Name: name, Ready: "unknown", Agent: "unknown"}
	n := e.nodeNamed(name)
	if n != nil {
		j.Ready = "yes"
		if !contract.NodeReady(n) {
			j.Ready = "no"
			j.lacks("not ready", "kubectl describe node "+name+"; if it is gone for good, see docs/node-gone.md",
				"it is not ready")
		}
		if e.node() == "" {
			e.conditions(n, pod, &j)
		}
		if !allowed(e.Class.It, n) {
			j.lacks("topology", "use another class", "allowedTopologies of class %s leave it out", e.Class.It.Name)
		}
		j.Excluded = excludes(pod, n)
	}
	// What a node has published stays when its agent goes.
	if e.agentOn(n, &j); e.PV.It == nil && j.Agent != "none" {
		e.space(&j)
	}
	return j
}

// refusedBy reports whether the newest Warning about the claim is that the agent of the node cannot
// serve it now. The controller of PVs repeats events that it waits, which are newer.
func (e *explanation) refusedBy(node string) bool {
	w := e.warned()
	return w != nil && strings.Contains(w.Message, "node "+node+" cannot serve this claim")
}

// notServing adds that agents are not ready which serve the claim all the same: it looks like the
// cause, and is none.
func (e *explanation) notServing() {
	for _, n := range e.answer.Nodes {
		if n.Agent == "not ready" && n.Ready != "no" && !slices.ContainsFunc(n.Lacks,
			func(l Lack) bool { return l.kind == "agent" || l.kind == "pool" }) && !e.refusedBy(n.Name) {
			what := fmt.Sprintf("the agent of node %s is not ready and serves all the same", n.Name)
			if why := e.notReady(n.Name); why != "" {
				what += ": " + why
			}
			e.add(Note, "", "%s", what)
		}
	}
}
