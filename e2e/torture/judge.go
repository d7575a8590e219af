package torture

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	Lost   Kind = "lost"
	Leaked Kind = "leaked"
	Double Kind = "double"
)

// Finding is one thing that should not be.
type Finding struct {
	Kind Kind
	What string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s", f.Kind, f.What) }

// findings collects findings, each once.
type findings []Finding

func (f *findings) add(kind Kind, format string, args ...any) {
	if what := (Finding{kind, fmt.Sprintf(format, args...)}); !slices.Contains(*f, what) {
		*f = append(*f, what)
	}
}

// Judge returns the findings in an observation of a settled cluster. Before that, findings may be
// temporary.
func Judge(s Sight) []Finding {
	var f findings
	f.memories(s)
	f.claims(s)
	f.pvs(s)
	for _, d := range s.Disks {
		f.disk(s, d)
	}
	f.doubles(s)
	return f
}

// memories checks that the volumes that a tenant has or has kept exist with their data, and that
// its claims exist.
func (f *findings) memories(s Sight) {
	for _, m := range s.Remembered {
		for _, what := range m.Damage {
			f.add(Lost, "%s", what)
		}
		if !m.Deleted && s.claim(m.UID) == nil {
			f.add(Lost, "the claim %s (%s) is gone, and was not deleted", m.Name, m.UID)
		}
		if m.Kept && s.pv(cmp.Or(m.PV, "pvc-"+string(m.UID))) == nil {
			f.add(Lost, "the PV of claim %s (%s, policy %s, deleted: %t) is gone; its directory was %s", m.Name, m.UID, m.Policy,
				m.Deleted, m.Directory)
		}
		if m.Deleted && s.claim(m.UID) != nil {
			f.add(Leaked, "the claim %s (%s) is deleted and stays", m.Name, m.UID)
		}
	}
}

// slack is the number of bytes by which the available space may differ between two observations.
const slack = 2 * mebibyte

// claims checks that each claim has a PV, or that there is no room and an event with the reason;
// and the same for growth.
func (f *findings) claims(s Sight) {
	for _, c := range s.Claims {
		want := c.Spec.Resources.Requests.Storage().Value()
		has := c.Status.Capacity.Storage().Value()
		warned, room := s.Warned[c.UID], s.room(&c)
		switch pv := s.pv(c.Spec.VolumeName); {
		case c.DeletionTimestamp != nil: // a finding of memories
		case c.Status.Phase != corev1.ClaimPending && pv == nil:
			f.add(Lost, "claim %s is %s and has no PV %s", c.Name, c.Status.Phase, c.Spec.VolumeName)
		case c.Status.Phase == corev1.ClaimPending && warned == "":
			f.add(Leaked, "claim %s (%s) of class %s is Pending, wants %d bytes, and no event has the reason", c.Name, c.UID,
				*c.Spec.StorageClassName, want)
		case c.Status.Phase == corev1.ClaimPending && s.uncopyable(&c):
		case c.Status.Phase == corev1.ClaimPending && want+slack < room:
			f.add(Leaked, "claim %s (%s) is Pending, wants %d bytes where %d are available; the last message: %s", c.Name, c.UID,
				want, room, warned)
		case c.Status.Phase != corev1.ClaimPending && has < want:
			f.growth(s, &c, want-has)
		}
	}
}

// growth checks that a claim that does not grow has the reason in its status, and that there is no
// room.
func (f *findings) growth(s Sight, c *corev1.PersistentVolumeClaim, more int64) {
	room := s.room(c)
	said := slices.ContainsFunc(c.Status.Conditions, func(cond corev1.PersistentVolumeClaimCondition) bool {
		return cond.Type == corev1.PersistentVolumeClaimControllerResizeError && cond.Status == corev1.ConditionTrue
	})
	switch {
	case !said:
		f.add(Leaked, "claim %s (%s) does not grow by %d bytes, and its status has no reason", c.Name, c.UID, more)
	case more+slack < room:
		f.add(Leaked, "claim %s (%s) does not grow by %d bytes where %d are available: %+v", c.Name, c.UID, more, room,
			c.Status.Conditions)
	}
}

// room returns the space available to the claim: on its node, or else the largest of all nodes.
func (s *Sight) room(c *corev1.PersistentVolumeClaim) int64 {
	least := int64(-1)
	node := c.Annotations[annotation]
	if pv := s.pv(c.Spec.VolumeName); pv != nil {
		node = pv.Node
	}
	for _, d := range s.Disks {
		for _, p := range d.Pools {
			if (node == "" || node == d.Node) && (least < 0 || p.Available < least) {
				least = p.Available
			}
		}
	}
	return least
}

// pvs checks that a PV that is used or kept has its directory and its record, and that no other PV
// is left.
func (f *findings) pvs(s Sight) {
	for _, pv := range s.PVs {
		ref := pv.Spec.ClaimRef
		living := ref != nil && s.claim(ref.UID) != nil
		retained := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		if !living && !retained {
			f.add(Leaked, "PV %s on %s is %s, has policy Delete, its claim is gone, and it stays", pv.Name, pv.Node,
				pv.Status.Phase)
			continue
		}
		if pv.Annotations[annPolicy] != "" {
			f.add(Leaked, "PV %s (%s) has the annotation of a migration that is over", pv.Name, pv.Status.Phase)
		}
		pool := s.pool(pv.Node, pv.Directory)
		if pool == nil {
			f.add(Lost, "PV %s on node %q names %q, which is in no pool", pv.Name, pv.Node, pv.Directory)
			continue
		}
		name := filepath.Base(pv.Directory)
		v, recorded := pool.volumes()[name]
		switch capacity := pv.Spec.Capacity.Storage().Value(); {
		case !slices.Contains(pool.Directories, name):
			f.add(Lost, "PV %s (%s): its directory %s is not there", pv.Name, pv.Status.Phase, short(pv.Directory))
		case !recorded:
			f.add(Lost, "PV %s (%s): its directory %s has no record", pv.Name, pv.Status.Phase, short(pv.Directory))
		case v.State != "bound" || v.PV != pv.Name || v.Missing:
			f.add(Lost, "PV %s (%s): its record is %+v", pv.Name, pv.Status.Phase, v)
		case v.Bytes < capacity:
			f.add(Lost, "PV %s has %d bytes, its record allocates %d", pv.Name, capacity, v.Bytes)
		}
	}
}

// doubles checks that nothing exists twice.
func (f *findings) doubles(s Sight) {
	pvOf, at := map[types.UID]string{}, map[string]string{}
	for _, pv := range s.PVs {
		if pv.Spec.ClaimRef != nil {
			once(f, pvOf, pv.Spec.ClaimRef.UID, pv.Name, "claim %s has the PVs %s and %s")
		}
		if pv.Directory != "" {
			once(f, at, pv.Node+" "+pv.Directory, pv.Name, "the directory %s is named by the PVs %s and %s")
		}
	}
	volumeOf, named := map[types.UID]string{}, map[string]string{}
	for _, d := range s.Disks {
		for _, p := range d.Pools {
			for _, v := range p.Volumes {
				if v.Owner.UID != "" {
					once(f, volumeOf, types.UID(v.Owner.UID), p.Path+"/"+v.Name, "claim %s has the volumes %s and %s")
				}
			}
			for _, name := range p.Directories {
				once(f, named, name, p.Path, "the directory %s is in %s and in %s")
			}
		}
	}
}
