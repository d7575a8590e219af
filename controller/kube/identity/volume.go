package identity

import (
	"fmt"
	"strings"
)

// Name is a mark by which a PV names a Node.
type Name struct {
	Mark  string // the field, for messages
	Value string // "" if the PV lacks the mark
	Own   bool   // the value is of this Node
	Host  bool   // the value is a hostname, and not the name of a Node
}

// Existence is whether there is another Node of a name.
type Existence int

const (
	// Unknown is the answer if the API server was not asked, or must not be.
	Unknown Existence = iota
	// Exists is the answer where another Node has the name.
	Exists
	// Absent is the answer where no Node has it.
	Absent
)

// PV has the marks of a PV of a directory, as the agent of one node finds them.
type PV struct {
	// Volume is set if the record at the place that the PV names is in an open pool and names this
	// PV, and the PV's pool UUID does not differ. It is also set for a PV whose UUID is the pool's
	// and of which there is neither record nor directory: there is nothing to destroy.
	Volume bool
	// Adoption is set if there is no record yet, and Volume because the names of PV and directory
	// follow from the claim, or the pool's UUID was confirmed.
	Adoption bool
	// NodeUID is set if the PV has the UID of this Node. Another one counts neither way, because
	// Nodes are made again.
	NodeUID bool
	// Label is the node label, which the agents keep for their watch and every tool can overwrite.
	Label Name
	// Annotations are those by which the PV's provisioner names the node.
	Annotations []Name
	// Affinity is what the node affinity requires. It cannot be changed.
	Affinity Name
	// Unpinned is set if the PV has no affinity, and its provisioner writes none.
	Unpinned bool
}

// WhoseVolume answers whether the volume of a PV is on this node. It asks other about the Nodes
// that marks name if they are not this one, and only then.
//
// Ours needs the volume and another mark, and no mark of another Node that exists. A label does not
// count against an affinity that is this Node's. A PV without affinity, and a directory without a
// record, also need a mark that the provisioner wrote. A directory without a record, and a PV
// without affinity, have no mark of another Node, whether or not that exists.
func WhoseVolume(pv PV, other func(Name) Existence) Finding {
	written := pv.Affinity.Own
	for _, a := range pv.Annotations {
		written = written || a.Own
	}
	agrees := written || pv.NodeUID || pv.Label.Own
	if !pv.Volume && !agrees {
		return Finding{Answer: Foreign, Why: strings.Join(append(pv.differing(other), "no mark of it is this node's"), ", ")}
	}
	why := pv.differing(other)
	if !pv.Volume {
		why = append(why, "no volume of this node is recorded for it")
	}
	if (pv.Unpinned || pv.Adoption) && !written {
		why = append(why, "neither its node affinity nor an annotation of its provisioner names this node")
	} else if !agrees {
		why = append(why, "no mark of it names this node")
	}
	if len(why) > 0 {
		return Finding{Answer: Unclear, Why: strings.Join(why, ", ")}
	}
	return Finding{Answer: Ours}
}

// differing returns the marks that name another node, in words.
func (pv PV) differing(other func(Name) Existence) (all []string) {
	names := append([]Name{pv.Affinity}, pv.Annotations...)
	if !pv.Affinity.Own {
		names = append(names, pv.Label)
	}
	for _, n := range names {
		if n.Own || n.Value == "" {
			continue
		}
		switch existence := other(n); {
		case existence == Absent && (pv.Adoption || pv.Unpinned):
			all = append(all, fmt.Sprintf("%s is %q, which is not this node", n.Mark, n.Value))
		case existence == Exists:
			all = append(all, fmt.Sprintf("%s is %q, which is another node", n.Mark, n.Value))
		case existence == Unknown:
			all = append(all, fmt.Sprintf("%s is %q, which may be another node", n.Mark, n.Value))
		}
	}
	return all
}
