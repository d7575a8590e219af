package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/devices"
)

// rawPlug draws a slot and a disk for it.
func rawPlug(w *World) string {
	kind, size := pick(w, w.diskKinds), ""
	switch w.rnd.IntN(12) {
	case 0:
		size = "/32"
	case 1:
		size = fmt.Sprintf("/%d", rawMiB) // another disk, with the ID and the size of the one without a size
	}
	return fmt.Sprintf("%d %s/%d%s", 1+w.rnd.IntN(rawSlots), kind, 1+w.rnd.IntN(3), size)
}

func (w *World) rawOffer(node string) []string {
	return []string{node, pick(w, []string{"refuse", "wipe"}), pick(w, []string{"by-id", "by-path"}),
		pick(w, []string{"Block", "Block", "Filesystem"})}
}

// aRawNode draws a node with raw disks, nil if there is none.
func (w *World) aRawNode() *rawNode {
	if len(w.raw.nodes) == 0 {
		return nil
	}
	return w.raw.nodes[pick(w, slices.Sorted(maps.Keys(w.raw.nodes)))]
}

// news notes that disks of the node changed.
func (s rawStep) news(done bool) bool {
	if done {
		s.note(s.n)
	}
	return done
}

// marked notes a write to a disk.
func (s rawStep) marked(done bool) bool {
	if done && strings.HasPrefix(s.owner(), hostOwner) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken[s.place.Disk] = time.Now()
	}
	return done
}

func (s rawStep) boot() bool {
	var order []int
	for _, at := range strings.Fields(s.value) {
		order = append(order, int(number(at)))
	}
	s.stop(s.n)
	s.n.Boot(order)
	s.start(s.n)
	return true
}

func (s rawStep) move() bool {
	to := int(number(s.value))
	if s.place.Disk == nil || to < 1 || to == s.slot || s.place.Part > 0 {
		return false
	}
	s.stop(s.n)
	other := s.n.Attached()[to]
	s.n.Unplug(s.slot)
	s.n.Unplug(to)
	s.n.Plug(to, s.place.Disk)
	if other != nil {
		s.n.Plug(s.slot, other)
	}
	s.n.Boot(nil)
	s.start(s.n)
	return true
}

func (s rawStep) plug() bool {
	at, name, _ := strings.Cut(s.value, " ")
	kind, _, _ := strings.Cut(name, "/")
	d := s.disk(s.n.Name, name)
	second := slices.Contains(slices.Collect(maps.Values(s.n.Attached())), d)
	if d == nil || number(at) < 1 || second && !slices.Contains(rawShared, kind) {
		return false
	}
	return s.news(s.n.Plug(int(number(at)), d))
}

func (s rawStep) take() bool {
	owner := s.owner()
	return strings.HasPrefix(owner, hostOwner) && s.n.Mount(s.path) &&
		s.marked(s.n.Mark(s.path, devices.Filesystem(owner)))
}

// owner is who uses a disk: the claim that has a PV of it, or the host.
func (s rawStep) owner() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.pvs {
		if v.claim != "" && v.place.Overlaps(s.place) {
			return claimOwner + string(v.claim)
		}
	}
	return hostOwner + "tools"
}

// edit changes the PV of a disk, and deletes it if it was changed by force.
func (r *rawDisks) edit(d *devices.Disk, change func(*rawPV, *corev1.PersistentVolume) bool) bool {
	pvs := r.god.CoreV1().PersistentVolumes()
	for _, pv := range must1(pvs.List(ctx, metav1.ListOptions{})).Items {
		r.mu.Lock()
		v := r.pvs[pv.UID]
		fits := v != nil && v.place.Disk == d && change(v, &pv)
		r.mu.Unlock()
		if !fits {
			continue
		}
		_, err := pvs.Update(ctx, &pv, metav1.UpdateOptions{})
		if err == nil && v.forced {
			_ = pvs.Delete(ctx, pv.Name, metav1.DeleteOptions{})
		}
		return err == nil
	}
	return false
}

// pool makes the disk of a claim that of a pool with a volume. The operator, which does not run here,
// notes it on the PV.
func (s rawStep) pool() bool {
	noted := s.edit(s.place.Disk, func(v *rawPV, pv *corev1.PersistentVolume) bool {
		if pv.Status.Phase != corev1.VolumeBound || v.node != s.n {
			return false
		}
		delete(s.forced, v.place.Disk)
		held := contract.HeldPool{Node: s.n.Name, Pool: "a", Path: "/a"}
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, contract.AnnHeldPool, held.String())
		return true
	})
	if !noted {
		return false
	}
	volume := csiPV(fmt.Sprintf("pool-%s-%d", s.n.Name, s.slot), s.n.Name, "a")
	_, err := s.god.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	return err == nil && s.n.Mark(s.path, devices.Mark{At: 6 << 20, Bytes: "volumes", Owner: poolOwner + s.n.Name})
}

func (s rawStep) obey() bool {
	return s.edit(s.place.Disk, func(v *rawPV, pv *corev1.PersistentVolume) bool {
		if at := v.node.Place(v.path).Disk; at != nil && at != v.place.Disk {
			return false
		}
		for _, p := range v.node.reports() {
			if name, value, ok := strings.Cut(p.Confirm, "="); ok && p.PV == pv.Name && pv.Annotations[name] != value {
				metav1.SetMetaDataAnnotation(&pv.ObjectMeta, name, value)
				s.obeyed[p.PV+" "+p.Confirm] = time.Now()
				return true
			}
		}
		return false
	})
}

// claim makes a claim for a raw disk.
func (r *rawDisks) claim(name string) bool {
	class, mode := rawClass, corev1.PersistentVolumeBlock
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
	}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	_, err := r.god.CoreV1().PersistentVolumeClaims(tenant).Create(ctx, c, metav1.CreateOptions{})
	return err == nil
}

// rawPrelude offers disks of each node, and gives some to claims.
func (d *drawer) rawPrelude() (steps []string) {
	for _, n := range d.nodes {
		steps = append(steps, "raw offer "+strings.Join(d.rawOffer(n.name), " "))
		for at := range 1 + d.rnd.IntN(3) {
			steps = append(steps, fmt.Sprintf("raw plug %s %d %s/%d", n.name, at+1, pick(d.World, d.diskKinds), 1+d.rnd.IntN(4)))
		}
		for range 1 + d.rnd.IntN(2) {
			d.claims++
			steps = append(steps, fmt.Sprintf("raw claim r%d", d.claims))
		}
	}
	return append(steps, "wait 2m")
}
