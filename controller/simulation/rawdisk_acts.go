package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
