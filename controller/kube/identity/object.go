package identity

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

const (
	// createdWithin is how long after its volume a PV is created at the most.
	createdWithin = 10 * time.Minute
	// clockSkew is how much the clocks of node and API server may differ.
	clockSkew = time.Minute
)

// Object has what a volume's record and a PV that the record names by its name say about each
// other. A PV is known by its UID: one that is applied again, as from a backup, has the name of the
// former and another UID.
type Object struct {
	// Recorded is the UID of the PV that the record has; "" if it has none.
	Recorded string
	// RecordedCluster is the UID of the cluster that the record has; "" if it is unknown.
	RecordedCluster string
	// NeverBound is set if no agent has seen a PV of the volume.
	NeverBound bool
	// Made is when the volume was created; the zero value if that is unknown, as of a directory that
	// was adopted.
	Made time.Time

	// UID and Created are the PV's own.
	UID     string
	Created time.Time
	// Successor: the PV replaced the recorded one in a migration that the record's journal proves.
	Successor bool
	// Confirmed is set if an administrator named the PV's UID on the PV.
	Confirmed bool
	// Cluster is the UID of this cluster; "" if it is unknown.
	Cluster string
}

// WhichObject answers whether the volume is this PV's: it may then delete the volume, and a record
// without a UID gets the PV's. PVs that are applied to a rebuilt cluster are Released at once,
// because their claims are absent.
//
// A PV that is Bound to a claim, read from the API server, is the volume's whatever the answer: it
// replaces UID and cluster in the record. That is how the volumes of a rebuilt cluster get
// deletable again.
func WhichObject(o Object) Finding {
	sameCluster := o.Cluster != "" && o.Cluster == o.RecordedCluster
	made := !o.Made.IsZero() && CreatedBetween(o.Created, o.Made, o.Made.Add(createdWithin-clockSkew))
	switch {
	case o.Confirmed:
		return Finding{Answer: Ours}
	case o.Cluster != "" && o.RecordedCluster != "" && !sameCluster:
		return Finding{Foreign, fmt.Sprintf("the volume was recorded in another cluster, %s, and this PV was not bound to "+
			"a claim of this one, %s",
			o.RecordedCluster, o.Cluster)}
	case o.Recorded != "" && o.Recorded == o.UID:
		return Finding{Answer: Ours}
	case o.Recorded != "":
		return Finding{Foreign, fmt.Sprintf("the volume is that of a former PV of this name, whose UID was %s; the UID of "+
			"this one is %s", o.Recorded, o.UID)}
	case o.NeverBound && (sameCluster || made && o.RecordedCluster == o.Cluster):
		return Finding{Answer: Ours}
	case !sameCluster:
		return Finding{Unclear, "the record of the volume has no PV's UID, and it is unknown whether it was written in " +
			"this cluster"}
	case made || o.Successor:
		return Finding{Answer: Ours}
	case o.Made.IsZero():
		return Finding{Unclear, "the record of the volume has no PV's UID, its directory was there before, and this PV was " +
			"not bound to a claim since"}
	}
	return Finding{Unclear, fmt.Sprintf("the record of the volume has no PV's UID, and this PV, created %s, was not "+
		"created with the volume, %s", o.Created.UTC().Format(time.RFC3339), o.Made.UTC().Format(time.RFC3339))}
}

// CreatedBetween reports whether the API server may have created an object between two times of this
// node's clock, or of the clock of an agent before. Creation times have whole seconds.
func CreatedBetween(created, from, to time.Time) bool {
	return !created.Before(from.Truncate(time.Second).Add(-clockSkew)) && !created.After(to.Add(clockSkew))
}

// Home has the marks of a PV that name where its volume is. A mark that no agent recorded is "".
type Home struct {
	Node     string // the Node's name
	Hostname string // the label that the affinity of a hostPath PV requires; "" for a CSI PV
	NodeUID  string // of the Node whose agent last bound the volume
	Pool     string // the UUID of its pool
	Cluster  string // of the cluster whose agent last bound the volume
	Missing  string // the agent's report, as PoolMissing or VolumeIsMissing has it
}

// HomeOf returns the home of a PV. ok is false if it is not of the provisioners, or names no node.
func HomeOf(pv *corev1.PersistentVolume) (h Home, ok bool) {
	a := pv.Annotations
	h = Home{NodeUID: a[contract.AnnNodeUID], Pool: a[contract.AnnPool], Cluster: a[contract.AnnCluster],
		Missing: a[contract.AnnMissing]}
	if pv.Spec.CSI != nil {
		h.Node = contract.TopologyOf(pv)
		return h, h.Node != "" && Provisioned(pv)
	}
	h.Node, h.Hostname = a[contract.AnnProvisionOnNode], contract.Hostname(pv)
	return h, h.Node != "" && h.Hostname != "" && Provisioned(pv)
}

// IsNode reports whether a Node with that UID may be the home.
func (h Home) IsNode(uid string) bool { return h.NodeUID == "" || h.NodeUID == uid }

// Provisioned reports whether a PV is one of the provisioners': it has the CSI driver, or is a
// hostPath PV that names the provisioner.
func Provisioned(pv *corev1.PersistentVolume) bool {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver == contract.CSIProvisioner
	}
	return pv.Annotations[contract.AnnProvisionedBy] == contract.HostPathProvisioner
}
