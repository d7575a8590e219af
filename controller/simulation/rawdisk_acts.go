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

// rawStep is an act on a node with raw disks: on one of them if its words name a slot.
type rawStep struct {
	*rawDisks
	n     *rawNode
	slot  int
	path  string // of the slot
	place devices.Place
	value string // what follows
}

// rawAct returns an act whose arguments are a node, a SLOT with a disk if usage has that word, and
// one of the values.
func rawAct(words, usage string, weight int, values []string, do func(rawStep) bool) act {
	onSlot := strings.HasPrefix(usage, "SLOT")
	return act{words: "raw " + words, usage: "NODE " + usage, weight: weight,
		draw: func(w *World) []string {
			n := w.aRawNode()
			if n == nil {
				return nil
			}
			args := []string{n.Name}
			if onSlot {
				all := slices.Sorted(maps.Keys(n.Attached()))
				if len(all) == 0 {
					return nil
				}
				args = append(args, fmt.Sprint(pick(w, all)))
			}
			if values == nil {
				return args
			}
			return append(args, strings.Fields(pick(w, values))...)
		},
		do: func(w *World, args []string) bool {
			s := rawStep{rawDisks: w.raw, n: w.raw.nodes[arg(args, 0)]}
			if args = args[1:]; s.n == nil {
				return false
			}
			if onSlot {
				at, part, _ := strings.Cut(arg(args, 0), "-")
				s.slot, s.path, args = int(number(at)), devices.Slot(int(number(at)), int(number(part))), args[1:]
				s.place = s.n.Place(s.path)
			}
			s.value = strings.Join(args, " ")
			return do(s)
		}}
}

// rawActs are what happens to raw disks. A SLOT is a number, or a number and a partition: 1-2.
var rawActs = []act{
	{words: "raw offer", weight: 1,
		usage: "NODE refuse|wipe|none by-id|by-path Block|Filesystem: the ConfigMap of its raw disks",
		draw: func(w *World) []string {
			if n := w.aRawNode(); n != nil {
				return w.rawOffer(n.Name)
			}
			return nil
		},
		do: func(w *World, args []string) bool {
			return w.raw.configure(arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3))
		}},
	{words: "raw claim", usage: "NAME: a pod uses a new claim for a raw disk", weight: 6,
		draw: func(w *World) []string {
			w.claims++
			return []string{fmt.Sprintf("r%d", w.claims)}
		},
		do: func(w *World, args []string) bool { return w.raw.claim(arg(args, 0)) }},
	rawAct("plug", "NUMBER KIND/N: a disk is attached in a slot", 5, nil, rawStep.plug).with(rawPlug),
	rawAct("unplug", "SLOT: its disk is taken out", 2, nil, func(s rawStep) bool { return s.news(s.n.Unplug(s.slot)) }),
	rawAct("boot", "NUMBER ...: it boots, and finds its disks in that order of slots", 3,
		[]string{"1 2 3 4", "4 3 2 1", "2 1 4 3", "3 4 1 2"}, rawStep.boot),
	rawAct("take", "SLOT: the host formats and mounts a disk", 3, nil, rawStep.take),
	rawAct("unmount", "SLOT: the host unmounts a disk", 2, nil, func(s rawStep) bool { return s.n.Unmount(s.path) }),
	rawAct("partition", "SLOT N: its user makes partitions", 2, []string{"1", "2"}, func(s rawStep) bool {
		return s.marked(s.n.Partition(s.path, int(number(s.value)), s.owner()))
	}),
	rawAct("lvm", "SLOT: its user makes a logical volume on it", 2, nil, func(s rawStep) bool {
		return s.marked(s.n.Mark(s.path, devices.LVM(s.owner())))
	}),
	rawAct("host", "multipath|lvm on|off: it joins paths, or activates logical volumes", 2,
		[]string{"multipath on", "lvm on", "multipath off", "lvm off"}, func(s rawStep) bool {
			program, on, _ := strings.Cut(s.value, " ")
			s.n.Host(program, on == "on")
			return s.news(true)
		}),
	rawAct("rename", "SLOT NAME: another rule of udev gives its disk another link in by-id", 1,
		[]string{"disk-1", "disk-2"}, func(s rawStep) bool {
			if s.place.Disk != nil {
				s.n.Rename(s.place.Disk, s.value)
			}
			return s.news(s.place.Disk != nil)
		}),
	rawAct("disk", "SLOT well|readonly|broken|hanging: how it answers", 2, append(rawStates, rawStates[0]),
		func(s rawStep) bool {
			state := slices.Index(rawStates, s.value)
			if s.place.Disk == nil || state < 0 {
				return false
			}
			s.place.Disk.Set(devices.State(state))
			return s.news(true)
		}),
	rawAct("move", "SLOT NUMBER: it is off while its disk is put into another slot, or two change places; then it boots", 3,
		[]string{"1", "2", "3", "4"}, rawStep.move).then("delete claim", "raw obey"),
	rawAct("restart", ": the agent of raw disks ends and starts", 1, nil, func(s rawStep) bool {
		s.stop(s.n)
		s.start(s.n)
		return true
	}).then("raw claim"),
	rawAct("stop", ": the agent of raw disks ends", 1, nil, func(s rawStep) bool {
		s.stop(s.n)
		return true
	}).then("raw unref", "raw restart"),
	rawAct("kill", "N before|after: the agent of raw disks is killed at its N-th write to the API server", 2,
		[]string{"1 before", "1 after", "2 before", "2 after", "3 before", "3 after", "4 after"}, func(s rawStep) bool {
			nth, when, _ := strings.Cut(s.value, " ")
			s.faults.mu.Lock()
			defer s.faults.mu.Unlock()
			if s.n.agent == nil {
				return false
			}
			s.faults.kill = &killPoint{who: s.n.agent, nth: int(number(nth)), after: when == "after"}
			return s.n.agent != nil
		}).then("delete claim"),
	rawAct("pod", "SLOT off|on: a tenant ends the pod of its claim, or starts it again", 2,
		[]string{"off", "off", "on"}, func(s rawStep) bool {
			return s.edit(s.place.Disk, func(v *rawPV, _ *corev1.PersistentVolume) bool {
				v.idle = s.value == "off"
				return true
			})
		}).then("raw move", "raw unplug", "raw boot", "delete claim"),
	rawAct("force", "SLOT: an administrator removes the PV of a disk with its finalizers", 1, nil, func(s rawStep) bool {
		return s.edit(s.place.Disk, func(v *rawPV, pv *corev1.PersistentVolume) bool {
			if v.forced = true; s.claims[v.claim] != nil {
				s.claims[v.claim].forced = true
			}
			pv.Finalizers = nil
			return true
		})
	}),
	rawAct("unref", "SLOT: an administrator removes the claimRef of its Released PV", 1, nil, func(s rawStep) bool {
		return s.edit(s.place.Disk, func(v *rawPV, pv *corev1.PersistentVolume) bool {
			if pv.Status.Phase != corev1.VolumeReleased {
				return false
			}
			v.reused, pv.Spec.ClaimRef = true, nil
			return true
		})
	}).then("raw restart", "raw claim"),
	rawAct("obey", "SLOT: an administrator confirms the disk of its PV as the agent asks for, if it is the right one", 2,
		nil, rawStep.obey),
	rawAct("pool", "SLOT: its claim is that of a pool, whose volumes live", 1, nil, rawStep.pool).
		then("delete claim", "raw boot", "raw unmount"),
}

// rawStates are the names of devices.State.
var rawStates = []string{"well", "readonly", "broken", "hanging"}

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
