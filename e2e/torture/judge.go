package torture

import (
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind of a finding.
type Kind string

// What may be found.
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

// findings collects; each is said once.
type findings []Finding

func (f *findings) add(kind Kind, format string, args ...any) {
	if what := (Finding{kind, fmt.Sprintf(format, args...)}); !slices.Contains(*f, what) {
		*f = append(*f, what)
	}
}

// Judge says what is wrong with what is seen once nothing moves any more. Before that, it may be wrong for the moment.
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

// memories: what a tenant has, or has kept, is there and whole; a claim nobody deleted is there.
func (f *findings) memories(s Sight) {
	for _, m := range s.Remembered {
		for _, what := range m.Damage {
			f.add(Lost, "%s", what)
		}
		if !m.Deleted && s.claim(m.UID) == nil {
			f.add(Lost, "the claim %s (%s) is gone, and nobody deleted it", m.Name, m.UID)
		}
		if m.Kept && s.pv("pvc-"+string(m.UID)) == nil {
			f.add(Lost, "the PV of claim %s (%s, policy %s, deleted: %t) is gone; its directory was %s", m.Name, m.UID, m.Policy, m.Deleted, m.Directory)
		}
		if m.Deleted && s.claim(m.UID) != nil {
			f.add(Leaked, "the claim %s (%s) is deleted and stays", m.Name, m.UID)
		}
	}
}

// slack is what may be missing of the promisable space between two looks, in bytes.
const slack = 2 * mebibyte

// claims: each has a PV, or there is no room for it and somebody says so; the same for what it grows by.
func (f *findings) claims(s Sight) {
	for _, c := range s.Claims {
		want := c.Spec.Resources.Requests.Storage().Value()
		has := c.Status.Capacity.Storage().Value()
		warned, room := s.Warned[c.UID], s.room(&c)
		switch pv := s.pv(c.Spec.VolumeName); {
		case c.DeletionTimestamp != nil: // said above
		case c.Status.Phase != corev1.ClaimPending && pv == nil:
			f.add(Lost, "claim %s is %s and has no PV %s", c.Name, c.Status.Phase, c.Spec.VolumeName)
		case c.Status.Phase == corev1.ClaimPending && warned == "":
			f.add(Leaked, "claim %s (%s) of class %s is Pending, wants %d bytes, and nobody says why", c.Name, c.UID, *c.Spec.StorageClassName, want)
		case c.Status.Phase == corev1.ClaimPending && want+slack < room:
			f.add(Leaked, "claim %s (%s) is Pending, wants %d bytes where %d can be promised; the last words: %s", c.Name, c.UID, want, room, warned)
		case c.Status.Phase != corev1.ClaimPending && has < want:
			f.growth(s, &c, want-has)
		}
	}
}

// growth: a claim that does not grow says why, and there is no room.
func (f *findings) growth(s Sight, c *corev1.PersistentVolumeClaim, more int64) {
	room := s.room(c)
	said := slices.ContainsFunc(c.Status.Conditions, func(cond corev1.PersistentVolumeClaimCondition) bool {
		return cond.Type == corev1.PersistentVolumeClaimControllerResizeError && cond.Status == corev1.ConditionTrue
	})
	switch {
	case !said:
		f.add(Leaked, "claim %s (%s) does not grow by %d bytes, and nobody says why", c.Name, c.UID, more)
	case more+slack < room:
		f.add(Leaked, "claim %s (%s) does not grow by %d bytes where %d can be promised: %+v", c.Name, c.UID, more, room, c.Status.Conditions)
	}
}

// room is how much can be promised to the claim wherever it may go: on its node, or else on any.
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

// pvs: one that is used or kept has its directory and its record, one that is neither is gone.
func (f *findings) pvs(s Sight) {
	for _, pv := range s.PVs {
		ref := pv.Spec.ClaimRef
		living := ref != nil && s.claim(ref.UID) != nil
		retained := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		if !living && !retained {
			f.add(Leaked, "PV %s on %s is %s, has policy Delete, its claim is gone, and it stays", pv.Name, pv.Node, pv.Status.Phase)
			continue
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
			f.add(Lost, "PV %s has %d bytes, its record promises %d", pv.Name, capacity, v.Bytes)
		}
	}
}

// doubles: nothing is there twice.
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
