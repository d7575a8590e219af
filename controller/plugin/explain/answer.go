package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
)

// Answer describes a claim.
type Answer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class,omitempty"`
	// Size is the requested size in bytes.
	Size  int64  `json:"size"`
	State string `json:"state"`
	Since string `json:"since"`
	// Findings are the causes, the most telling first, and then what is worth knowing.
	Findings []Finding `json:"findings"`
	// Nodes are those that could hold the volume, or the one that does.
	Nodes  []Node  `json:"nodes,omitempty"`
	Events []Event `json:"events,omitempty"`
}

// Level is how much a finding matters.
type Level string

// The levels of findings.
const (
	Cause   Level = "cause"   // it keeps the claim from being bound
	Warning Level = "warning" // it will hurt, or has hurt
	Note    Level = "note"
	Unknown Level = "unknown" // it may matter, and could not be read
)

// Finding is one thing that matters for the claim.
type Finding struct {
	Level Level  `json:"level"`
	What  string `json:"what"`
	// Do is what to do about it; "" if there is nothing.
	Do string `json:"do,omitempty"`
}

// Blocked reports whether something keeps the claim from being bound.
func (a *Answer) Blocked() bool {
	for _, f := range a.Findings {
		if f.Level == Cause {
			return true
		}
	}
	return false
}

// explanation collects an answer.
type explanation struct {
	*Facts
	by     index
	answer Answer
}

func (e *explanation) nodeNamed(name string) *corev1.Node { return e.by.nodes[name] }

func (e *explanation) add(level Level, do, format string, args ...any) {
	e.answer.Findings = append(e.answer.Findings, Finding{level, fmt.Sprintf(format, args...), do})
}

// Explain says why the claim waits, or where its volume is and why there.
func Explain(f *Facts) Answer {
	claim := &f.Claim
	e := &explanation{Facts: f, by: indexOf(f), answer: Answer{Namespace: claim.Namespace, Name: claim.Name,
		Class: contract.Of(claim),
		Size:  contract.Bytes(claim), State: string(cmp.Or(claim.Status.Phase, corev1.ClaimPending)),
		Since: age(f.Now, claim.CreationTimestamp.Time)}}
	if claim.DeletionTimestamp != nil {
		e.answer.State = "Terminating"
		e.deleting()
	}
	switch {
	case claim.Spec.VolumeName != "":
		e.bound()
	default:
		e.pending()
		e.scheduler()
		e.notServing()
	}
	e.kept()
	e.events()
	e.unknown()
	if len(e.answer.Findings) == 0 {
		e.add(Note, "wait a minute and run this again", "nothing keeps this claim: it is younger than what would show")
	}
	slices.SortStableFunc(e.answer.Findings, func(a, b Finding) int { return causesFirst(a) - causesFirst(b) })
	return e.answer
}

func causesFirst(f Finding) int {
	if f.Level == Cause {
		return 0
	}
	return 1
}

// deleting explains a claim that was deleted and is still there.
func (e *explanation) deleting() {
	since := age(e.Now, e.Claim.DeletionTimestamp.Time)
	switch users := e.Users.Items; {
	case len(users) > 0:
		e.add(Cause, advice.EndPod(&e.Claim, users[0].Name, e.PV.It),
			"the claim was deleted %s ago, and pod %s uses it", since, users[0].Name)
	case !e.Users.Known():
		e.add(Cause, "", "the claim was deleted %s ago, and its finalizers %q keep it; whether a pod uses it is unknown: %s",
			since, e.Claim.Finalizers, e.Users.Unknown)
	default:
		e.add(Cause, "", "the claim was deleted %s ago, and its finalizers %q keep it", since, e.Claim.Finalizers)
	}
}

// kept adds deleted volumes of the claim's name that the pools keep: the user of the claim may want
// the data of the former one.
func (e *explanation) kept() {
	for _, p := range advice.Kept(e.Pools, e.Claim.Namespace, e.Claim.Name) {
		if e.Claim.Spec.VolumeName != "" && e.PV.Absent() {
			return // the places of its data are among the findings
		}
		e.add(Note, p.Do()+", if its data is wanted: see docs/undelete.md",
			"a former claim of this name was deleted, and pool %s on node %s keeps its volume: %s", p.Pool.Path, p.Agent.Node,
			p.Volume.Name)
	}
}

// unknown adds what could not be read and might have mattered.
func (e *explanation) unknown() {
	if e.Claim.Spec.VolumeName != "" && e.answer.Blocked() {
		return
	}
	pools := e.NoPools
	if len(e.answer.Nodes) == 0 { // no pool could have changed the answer
		pools = ""
	}
	daemonSets := ""
	if slices.ContainsFunc(e.answer.Nodes, func(n Node) bool { return n.Agent == "none" }) {
		daemonSets = e.DaemonSets.Unknown
	}
	classes := ""
	if e.Class.It == nil {
		classes = e.Classes.Unknown
	}
	told := map[string]bool{"": true}
	for _, reason := range []string{e.Class.Unknown, classes, e.PV.Unknown, e.Source.Unknown, e.SourcePV.Unknown,
		e.Nodes.Unknown, e.Agents.Unknown, daemonSets,
		e.CSINodes.Unknown, e.Events.Unknown, e.PVEvents.Unknown, e.NodeEvents.Unknown, e.PoolEvents.Unknown,
		e.Users.Unknown, e.Capacities.Unknown, pools} {
		if !told[reason] {
			told[reason] = true
			e.add(Unknown, "", "unknown: %s", reason)
		}
	}
	for _, p := range e.Pools {
		if p.Problem != "" && len(e.answer.Nodes) > 0 && !e.reported(p.Agent.Node) {
			e.add(Unknown, fmt.Sprintf("kubectl -n %s describe pod %s", p.Agent.Namespace, p.Agent.Pod),
				"unknown: the pools of node %s: %s", p.Agent.Node, p.Problem)
		}
	}
}
