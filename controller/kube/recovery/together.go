package recovery

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// OnNode is a volume of a node.
type OnNode struct {
	Node string
	*Volume
}

// Together leaves those of the volumes that only the others show not to be meant, or not which one: those of
// an earlier tenant of a namespace, and those of which two would get one PV's or one claim's name. It does
// nothing to a volume that is left already, unless its PV is Released, and could be made available.
func Together(all []OnNode, o Options) {
	if o.ToNamespace == "" {
		leaveEarlier(all)
	}
	leaveTwins(all)
}

// LostNamespace returns the UID that the namespace of a volume's claim had in the lost cluster, "" if it is
// not known or if no cluster was lost. A volume that is recovered has it on its PV: its record has the UID of
// the namespace here.
func LostNamespace(v Volume, f Facts, o Options) string {
	switch {
	case o.FromCluster == "" || o.FromCluster == f.Here:
		return ""
	case v.Cluster == o.FromCluster:
		return v.NamespaceUID
	case f.PV == nil || !f.names(v):
		return ""
	}
	cluster, uid, _ := strings.Cut(f.PV.Annotations[contract.AnnLostNamespace], "/")
	if cluster != o.FromCluster {
		return ""
	}
	return uid
}

// NoteNamespace notes on the new PV of a volume of a lost cluster which namespace its claim had there. It does
// nothing if that is not known, or if the claim gets another namespace.
func NoteNamespace(pv *corev1.PersistentVolume, v Volume, o Options) {
	if v.NamespaceUID != "" && v.Cluster == o.FromCluster && o.Target(v) == v.Namespace {
		pv.Annotations[contract.AnnLostNamespace] = v.Cluster + "/" + v.NamespaceUID
	}
}

// tenants are the namespaces of one name that the lost cluster had.
type tenants struct {
	uids   map[string]bool
	here   map[string]bool // those with volumes that are recovered
	latest Volume          // of those that are not, the one with the latest claim
}

// of returns the tenants of each namespace.
func of(all []OnNode) map[string]*tenants {
	byName := map[string]*tenants{}
	for _, v := range all {
		if v.LostNamespaceUID == "" {
			continue
		}
		t := byName[v.Namespace]
		if t == nil {
			t = &tenants{uids: map[string]bool{}, here: map[string]bool{}}
			byName[v.Namespace] = t
		}
		t.uids[v.LostNamespaceUID] = true
		switch {
		case v.LostNamespaceUID != v.NamespaceUID:
			t.here[v.LostNamespaceUID] = true
		case t.latest.Name == "" || v.ClaimCreated.After(t.latest.ClaimCreated):
			t.latest = *v.Volume
		}
	}
	return byName
}

// leaveEarlier leaves the volumes of a namespace that was made again in the lost cluster, but those of the
// tenant who has volumes here already, or whose claim is the latest. Whose a volume is without the UID in its
// record is not known then.
func leaveEarlier(all []OnNode) {
	byName := of(all)
	for _, v := range all {
		t := byName[v.Namespace]
		ofLost := v.NamespaceUID == v.LostNamespaceUID && (v.Verdict == Made || v.Released)
		if t == nil || len(t.uids) < 2 || !ofLost || t.here[v.LostNamespaceUID] ||
			len(t.here) == 0 && v.LostNamespaceUID == t.latest.LostNamespaceUID {
			continue
		}
		v.leave(fmt.Sprintf("the lost cluster had namespace %s twice, and this volume's, with UID %s, may be that of an earlier "+
			"tenant; if it is not, use -n %[1]s --to-namespace=%[1]s", v.Namespace, cmp.Or(v.LostNamespaceUID, "unknown")))
	}
}

// leaveTwins leaves volumes of which two would get one PV's or one claim's name: a retained volume and
// its successor, or a pool and its copy.
func leaveTwins(all []OnNode) {
	names := map[string][]OnNode{}
	for _, v := range all {
		if v.Verdict == Made {
			names["PV "+v.PVName] = append(names["PV "+v.PVName], v)
			claim := fmt.Sprintf("claim %s/%s", v.Namespace, v.Claim)
			names[claim] = append(names[claim], v)
		}
	}
	for name, twins := range names {
		if len(twins) < 2 {
			continue
		}
		for _, v := range twins {
			other := twins[0]
			if other.Volume == v.Volume {
				other = twins[1]
			}
			v.leave(fmt.Sprintf("volume %s in %s on node %s is of %s, too: apply what `orphans show` prints for "+
				"the one that is wanted", other.Name, other.Pool, other.Node, name))
		}
	}
}

func (v OnNode) leave(why string) { v.Finding, v.Notes = Finding{Verdict: Left, Why: why}, nil }
