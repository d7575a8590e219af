package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Loss is how a volume was lost with its node.
type Loss int

const (
	// NotLost is the loss of a volume that its node has, or may have.
	NotLost Loss = iota
	// NodeAbsent is the loss with a node that does not exist any more.
	NodeAbsent
	// VolumeMissing is the loss of a volume whose pool came to the new Node without the volume.
	VolumeMissing
	// GivenUp is the loss that an administrator confirmed with contract.AnnGiveUp on the Node.
	GivenUp
)

// NodeFacts are the marks of a PV, and what the API server has of its node.
type NodeFacts struct {
	PV string // the name
	Home

	ThisCluster string // "" if it may not be read

	Exists bool   // a Node has the name, Ready or not
	UID    string // that Node's
	GiveUp string // that Node's annotation contract.AnnGiveUp
	Agent  bool   // an agent on the node is ready
	Open   bool   // and has the pool of the PV open
	// the grace period is over since the node answered last, or since the Node of the name came into question
	Waited bool

	OnClaim bool // the pool is on a claim, whose disk may be attached later than the agent starts

	HostnameAt string // the name of another Node that has the hostname which the PV requires
	PoolAt     string // the name of another Node whose agent has the pool open
}

// PoolMissing is the report of the agent of a Node that the pool of a PV is not open there.
func PoolMissing(nodeUID string) string { return "pool/" + nodeUID }

// VolumeIsMissing is the report of the agent of a Node that the pool of a PV is open there, and
// does not have the volume.
func VolumeIsMissing(nodeUID string) string { return "volume/" + nodeUID }

// GivesUp reports whether the annotation of a Node gives the volume of a PV up: it lists the Node's
// own UID, for volumes of an earlier Node of its name, or the UUID of the pool.
func GivesUp(annotation, nodeUID, pvNodeUID, pool string) bool {
	values := strings.FieldsFunc(annotation, func(r rune) bool { return r == ',' || r == ' ' })
	return pool != "" && slices.Contains(values, pool) ||
		nodeUID != "" && pvNodeUID != "" && pvNodeUID != nodeUID && slices.Contains(values, nodeUID)
}

// NodeGone answers whether the volume of a PV was lost with its node, so that it may be given up.
// It is Ours then, and Foreign if the node answers. Unclear has no reason in the grace period.
//
//	a Node of the name     the volume is given up if
//	exists                 the Node's annotation gives it up, and its agent reports the pool as not open
//	exists, another UID    the agent has the pool open, and reports that it came without the volume
//	does not exist         no agent of it was ready for the grace period, and nothing of it is on another node
//
// Each row waits for the grace period: the disk of a node that was just made may be mounted later
// than its agent starts. Each needs the PV's mark of this cluster: the nodes of a PV that was
// restored here may still join.
func NodeGone(f NodeFacts) (Loss, Finding) {
	loss, found := f.lost()
	if found.Answer != Ours || f.ThisCluster != "" && f.Cluster == f.ThisCluster {
		return loss, found
	}
	return NotLost, Finding{Unclear, f.ofAnotherCluster()}
}

func (f *NodeFacts) lost() (Loss, Finding) {
	switch {
	case f.Exists && f.Waited && f.Missing == PoolMissing(f.UID) && f.givenUp():
		return GivenUp, Finding{Answer: Ours}
	case f.Exists && (f.NodeUID == "" || f.NodeUID == f.UID):
		return NotLost, Finding{Foreign, "node " + f.Node + " exists"}
	case f.Exists && !f.Waited:
		return NotLost, Finding{}
	case f.Exists && f.Agent && f.Open && f.Missing == VolumeIsMissing(f.UID):
		return VolumeMissing, Finding{Answer: Ours}
	case f.Exists:
		return NotLost, Finding{Unclear, f.madeAgain()}
	case f.Agent:
		return NotLost, Finding{Foreign, "the agent of node " + f.Node + " is ready"}
	case f.HostnameAt != "":
		return NotLost, Finding{Foreign, fmt.Sprintf("node %s has the hostname of node %s", f.HostnameAt, f.Node)}
	case !f.Waited:
		return NotLost, Finding{}
	case f.PoolAt != "":
		return NotLost, Finding{Unclear, fmt.Sprintf("node %s does not exist any more, and node %s has pool %s, which "+
			"has this volume: move the disk back, or make the PV again for node %[2]s", f.Node, f.PoolAt, f.Pool)}
	}
	return NodeAbsent, Finding{Answer: Ours}
}

// givenUp reports whether the annotation of the Node gives the PV up. The Node's UID does not give up the
// volumes of pools on claims: their disks have volumes of their own, and are attached by themselves. The
// pool's UUID does.
func (f *NodeFacts) givenUp() bool {
	uid := f.UID
	if f.OnClaim {
		uid = ""
	}
	return GivesUp(f.GiveUp, uid, f.NodeUID, f.Pool)
}

// HostnameTaken reports whether the Node of the PV has been absent for the grace period, and another
// machine has its hostname.
func (f *NodeFacts) HostnameTaken() bool {
	return !f.Exists && !f.Agent && f.Waited && f.HostnameAt != ""
}

// madeAgain is the reason for a PV whose Node was made again, and whose volume is not bound since.
func (f *NodeFacts) madeAgain() string {
	if f.OnClaim {
		return fmt.Sprintf("node %s was made again (UID %s, this PV has %s), and its agent does not have this "+
			"volume yet: its pool is on a claim, whose disk is attached by itself. If the disk is lost: kubectl annotate "+
			"--overwrite node %[1]s %[4]s=%[5]s. That gives up every volume of this pool",
			f.Node, f.UID, f.NodeUID, contract.AnnGiveUp, f.Pool)
	}
	return fmt.Sprintf("node %s was made again (UID %s, this PV has %s), and its agent does not have this volume "+
		"yet: have the agent ready, with the disk of pool %s at its path. If the disk is lost: kubectl annotate "+
		"--overwrite node %[1]s %[5]s=%[2]s. That gives up every volume of the earlier node whose pool is not open",
		f.Node, f.UID, f.NodeUID, cmp.Or(f.Pool, "unknown"), contract.AnnGiveUp)
}

// ofAnotherCluster is the reason for a PV without the mark of this cluster.
func (f *NodeFacts) ofAnotherCluster() string {
	if f.ThisCluster == "" {
		return "the operator may not read the namespace kube-system, whose UID identifies the cluster: apply the " +
			"operator's ClusterRole of this version"
	}
	return fmt.Sprintf("node %s does not have this volume, and this PV has no mark of this cluster: it was restored "+
		"here and its node may still join, or its node was gone before the operator was updated. If the node was one of "+
		"this cluster: kubectl annotate --overwrite pv %s %s=%s",
		f.Node, f.PV, contract.AnnCluster, f.ThisCluster)
}
