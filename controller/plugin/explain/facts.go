package explain

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// Facts are what Explain is a function of.
type Facts struct {
	// Now is the API server's time, or this computer's if that is unknown.
	Now   time.Time
	Claim corev1.PersistentVolumeClaim
	// Class is the claim's class; absent if the claim names none, or one that does not exist.
	Class   cluster.Object[storagev1.StorageClass]
	Classes cluster.List[storagev1.StorageClass]
	PV      cluster.Object[corev1.PersistentVolume]
	// Source is the claim whose volume is copied for this one, and SourcePV its PV.
	Source   cluster.Object[corev1.PersistentVolumeClaim]
	SourcePV cluster.Object[corev1.PersistentVolume]

	Nodes      cluster.List[corev1.Node]
	CSINodes   cluster.List[storagev1.CSINode]
	Capacities cluster.List[storagev1.CSIStorageCapacity]
	Agents     cluster.List[cluster.Agent]
	DaemonSets cluster.List[appsv1.DaemonSet]
	// Users are the pods of the claim's namespace that use it and have not ended.
	Users cluster.List[corev1.Pod]

	Events, PVEvents, NodeEvents cluster.List[corev1.Event]
	// PoolEvents are those that say of pools of any node that they are ready, or not.
	PoolEvents cluster.List[corev1.Event]

	// Pools are those of the nodes that could hold the volume. NoPools says why they are not known.
	Pools   []agents.Pools
	NoPools string
}

// Read reads the facts about a claim, which the caller has read.
func Read(ctx context.Context, r cluster.Reader, ask agents.AskPools, claim *corev1.PersistentVolumeClaim) Facts {
	f := Facts{Claim: *claim}
	f.Now, _ = r.Now()
	cluster.Together(
		func() { f.Class = r.Class(ctx, contract.Of(claim)) },
		func() { f.Classes = r.Classes(ctx) },
		func() { f.PV = r.PV(ctx, claim.Spec.VolumeName) },
		func() { f.readSource(ctx, r) },
		func() { f.Nodes = r.Nodes(ctx) },
		func() { f.CSINodes = r.CSINodes(ctx) },
		func() { f.Capacities = r.Capacities(ctx) },
		func() { f.Agents = agentsFor(ctx, r, claim) },
		func() { f.DaemonSets = r.DaemonSets(ctx) },
		func() { f.PoolEvents = r.EventsFor(ctx, events.PoolNotReady, events.PoolReady) },
		func() { f.Users = r.Pods(ctx, claim.Namespace, "") },
		func() {
			f.Events = r.EventsOf(ctx, "PersistentVolumeClaim", claim.Namespace, claim.Name, claim.UID)
		},
	)
	f.Users.Items = slices.DeleteFunc(f.Users.Items, func(p corev1.Pod) bool {
		return contract.ClaimUsers([]corev1.Pod{p})[claim.Namespace+"/"+claim.Name] == ""
	})
	node := f.node()
	cluster.Together(
		func() {
			if pv := f.PV.It; pv != nil {
				f.PVEvents = r.EventsOf(ctx, "PersistentVolume", "", pv.Name, pv.UID)
			}
		},
		func() {
			if n := f.nodeNamed(node); n != nil {
				f.NodeEvents = r.EventsOf(ctx, "Node", "", n.Name, n.UID)
			}
		},
		func() {
			if f.Class.It != nil || claim.Spec.VolumeName != "" { // without a class no pool matters
				f.Pools, f.NoPools = ask(ctx, f.serving())
			}
		},
	)
	return f
}

// readSource reads the claim whose volume is copied for this one, and its PV, while that decides.
func (f *Facts) readSource(ctx context.Context, r cluster.Reader) {
	source, ok := contract.CopiedClaim(&f.Claim)
	if !ok || f.Claim.Spec.VolumeName != "" || source.Namespace != f.Claim.Namespace {
		return
	}
	if f.Source = r.Claim(ctx, source.Namespace, source.Name); f.Source.It != nil {
		f.SourcePV = r.PV(ctx, f.Source.It.Spec.VolumeName)
	}
}

// agentsFor lists the agents. A claim without a PV may wait for one that is not ready.
func agentsFor(ctx context.Context, r cluster.Reader, claim *corev1.PersistentVolumeClaim) cluster.List[cluster.Agent] {
	if claim.Spec.VolumeName != "" {
		return r.Agents(ctx)
	}
	return r.ExplainedAgents(ctx, nil)
}

// node returns the name of the claim's node: that of its PV, that of the volume that is copied for it, or
// the one that was chosen for it; "" if there is none yet.
func (f *Facts) node() string {
	if pv := f.PV.It; pv != nil {
		return cluster.NodesOf(f.Nodes)(pv)
	}
	if contract.Copies(&f.Claim, f.Class.It) { // whatever node the scheduler chose
		if f.SourcePV.It == nil {
			return ""
		}
		return cluster.NodesOf(f.Nodes)(f.SourcePV.It)
	}
	node, _ := f.chosenNode()
	return node
}

// chosenNode returns the node that was chosen for the claim, and the annotation that names it.
func (f *Facts) chosenNode() (node, by string) {
	return contract.NodeOf(&f.Claim, f.Class.It)
}

func (f *Facts) nodeNamed(name string) *corev1.Node {
	return f.Nodes.Find(func(n *corev1.Node) bool { return n.Name == name })
}

// byAnnotation reports whether the annotation of the claim chooses the node: not for classes of the
// CSI driver, nor for those of a provisioner that has no such annotation.
func (f *Facts) byAnnotation() bool {
	if f.Class.It == nil {
		return false
	}
	d := contract.DialectOf(f.Class.It.Provisioner)
	return d != nil && d.ByAnnotation
}

// isDialect reports whether a provisioner makes hostPath PVs, and none of a CSI driver.
func isDialect(provisioner string) bool { return contract.DialectOf(provisioner) != nil }

// serving returns the agents that could serve the claim: the one of its node, or all of its
// provisioner if it has none, or one that does not exist. If its PV is lost, any agent could have
// the data.
func (f *Facts) serving() (all []cluster.Agent) {
	node := f.node()
	lost := f.Claim.Spec.VolumeName != "" && f.PV.Absent()
	if f.nodeNamed(node) == nil && f.Nodes.Known() {
		node = ""
	}
	for _, a := range f.Agents.Items {
		if a.Process == cluster.NodeAgent && (lost || (node == "" || a.Node == node) &&
			(f.Class.It == nil || a.Serves(f.Class.It.Provisioner))) {
			all = append(all, a)
		}
	}
	return all
}
