package disks

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// Two disks of the node, and the PVs of the paths /dev/a and /dev/b.
const (
	diskA, diskB = "naa.5000c500a1b2c3d4", "naa.5000c500ffffffff"
	pvA, pvB     = "local-n-a", "local-n-b"
)

func (a action) String() string {
	return []string{"leave", "stop", "keep", "check", "withdraw", "release", "offer"}[a]
}

// node is a node without disks and PVs. Each row of a table adds some.
type node struct {
	*testing.T
	found
}

func emptyNode(t *testing.T) *node {
	t.Helper()
	s, err := parseSpec(configMap())
	if err != nil {
		t.Fatal(err)
	}
	return &node{t, found{
		node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}}, spec: s, at: map[string]disk.Device{},
		partly: map[types.UID]bool{}, gone: map[types.UID]time.Time{}, now: time.Now(),
	}}
}

// device returns a disk at a path. The minor number identifies its attachment.
func device(path string, minor uint32, id string) disk.Device {
	return disk.Device{
		Path: path, Number: disk.Number{Major: 8, Minor: minor}, Sequence: uint64(minor), Bytes: 100, ID: id, Identity: id,
		Attachment: fmt.Sprintf("boot/%d", minor),
	}
}

// attach adds disks that the ConfigMap selects, at their paths.
func (n *node) attach(devices ...disk.Device) {
	for _, d := range devices {
		n.devices = append(n.devices, d)
		n.at[d.Path] = d
	}
}

// made adds a PV that was made for the disk, and the disk at its path unless another one is there.
func (n *node) made(name string, d disk.Device, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	s := n.spec
	if s == nil {
		s, _ = parseSpec(configMap())
	}
	pv := newPV(name, d, s, n.node)
	pv.UID, pv.Status.Phase = types.UID(name), phase
	if phase == corev1.VolumeBound || phase == corev1.VolumeReleased {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: "c", UID: "c1"}
	}
	n.pvs = append(n.pvs, pv)
	if _, has := n.at[d.Path]; !has {
		n.at[d.Path] = d
	}
	return pv
}

// detach removes the disk of a PV. Passes have missed it for that time.
func (n *node) detach(pv *corev1.PersistentVolume, since time.Duration) {
	path := localPath(pv)
	n.devices = slices.DeleteFunc(n.devices, func(d disk.Device) bool { return d.Path == path })
	n.at[path] = disk.Device{Path: path, Err: &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}}
	n.gone[pv.UID] = n.now.Add(-since)
}

// attachTwins attaches devices that report the ID of disk A, the first by the number 8:1.
func (n *node) attachTwins(paths ...string) {
	var all []disk.Number
	for i := range paths {
		all = append(all, device("", uint32(i+1), "").Number)
	}
	for i, path := range paths {
		d := device(path, uint32(i+1), diskA)
		d.Twins = slices.DeleteFunc(slices.Clone(all), func(other disk.Number) bool { return other == d.Number })
		n.attach(d)
	}
}

// outcomes formats decisions: "action device PV state", and the reasons of events.
func outcomes(decisions []decision) (all []string) {
	for _, d := range decisions {
		pv := ""
		if d.pv != nil {
			pv = d.pv.Name
		}
		text := fmt.Sprintf("%s %s %s %s", d.action, d.device.Path, pv, d.report.State)
		for _, w := range d.warnings {
			text += " " + w.reason
		}
		all = append(all, strings.Join(strings.Fields(text), " "))
	}
	return all
}

// planRow is a node and the decisions about it. The reasons contain the words.
type planRow struct {
	name  string
	found func(n *node)
	want  []string
	words string
}

func checkPlan(t *testing.T, rows []planRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			n := emptyNode(t)
			row.found(n)
			decisions := plan(n.found)
			if got := outcomes(decisions); !slices.Equal(got, row.want) {
				t.Errorf("%q, want %q", got, row.want)
			}
			reasons := ""
			for _, d := range decisions {
				reasons += d.why + d.report.Why
				for _, w := range d.warnings {
					reasons += w.message
				}
			}
			if !strings.Contains(reasons, row.words) {
				t.Errorf("the reasons are %q, want %q in them", reasons, row.words)
			}
			if again := plan(n.found); !reflect.DeepEqual(decisions, again) {
				t.Errorf("a second plan of the same values differs: %q", outcomes(again))
			}
		})
	}
}

func TestPlanWithoutPV(t *testing.T) {
	unread := errors.New("input/output error")
	checkPlan(t, []planRow{
		{"nothing", func(*node) {}, nil, ""},
		{"a new disk", func(n *node) { n.attach(device("/dev/a", 1, diskA)) }, []string{"offer /dev/a wiping"}, ""},
		{"a disk without an ID", func(n *node) { n.attach(device("/dev/a", 1, "")) }, []string{"offer /dev/a wiping"}, ""},
		{"it cannot be read", func(n *node) { n.attach(disk.Device{Path: "/dev/a", Err: unread}) },
			[]string{"stop /dev/a error DeviceError"}, "/dev/a is not offered: input/output error"},
		{"read-only", func(n *node) {
			d := device("/dev/a", 1, diskA)
			d.ReadOnly = true
			n.attach(d)
		}, []string{"stop /dev/a error DeviceError"}, "the device is read-only"},
		{"two serial numbers alike", func(n *node) {
			one, two := device("/dev/a", 1, "1234"), device("/dev/b", 2, "1234")
			one.Identity, two.Identity = "", ""
			one.Twins, two.Twins = []disk.Number{two.Number}, []disk.Number{one.Number}
			n.attach(one, two)
		}, []string{"stop /dev/a error DeviceError", "stop /dev/b error DeviceError"}, "device 8:2 reports the same ID 1234"},
		{"one WWN by two paths", func(n *node) {
			one, two := device("/dev/a", 1, diskA), device("/dev/b", 2, diskA)
			one.Twins, two.Twins = []disk.Number{two.Number}, []disk.Number{one.Number}
			n.attach(one, two)
		}, []string{"offer /dev/a wiping"}, ""},
		{"a clone of the disk of a PV", func(n *node) {
			n.made(pvB, device("/dev/b", 2, diskA), corev1.VolumeBound)
			n.attachTwins("/dev/a", "/dev/b", "/dev/c")
		}, []string{"keep /dev/b " + pvB + " bound DeviceTwice DeviceTwice"}, "/dev/c is taken for another path to this disk"},
		{"paths that dm-multipath joins, under a PV", func(n *node) {
			n.made(pvB, device("/dev/b", 2, diskA), corev1.VolumeBound)
			n.attachTwins("/dev/a", "/dev/b")
			n.devices[0].Joined = true
		}, []string{"keep /dev/b " + pvB + " bound"}, ""},
		{"one device by two names", func(n *node) { n.attach(device("/dev/a", 1, diskA), device("/dev/x", 1, diskA)) },
			[]string{"offer /dev/a wiping"}, ""},
		{"dm-multipath and a path of it", func(n *node) {
			one, joined := device("/dev/a", 1, diskA), device("/dev/m", 2, diskA)
			one.Twins, joined.Twins, one.Joined = []disk.Number{joined.Number}, []disk.Number{one.Number}, true
			n.attach(one, joined)
		}, []string{"offer /dev/m wiping"}, ""},
		{"the name of a PV of another disk", func(n *node) {
			pv := n.made(pvB, device("/dev/b", 2, diskB), corev1.VolumeBound)
			pv.Name = pvA
			n.attach(device("/dev/a", 1, diskA))
		}, []string{"offer /dev/a wiping", "keep /dev/b local-n-a bound"}, ""},
	})
}

// Names of PVs: two devices with one base name, and a device whose plain name a PV has, get a hash.
func TestPlanNames(t *testing.T) {
	n := emptyNode(t)
	n.attach(device("/dev/a", 1, diskA), device("/dev/b", 2, diskB), device("/dev/x/a", 3, ""), device("/dev/c", 4, ""))
	n.made("local-n-c", device("/dev/d", 5, ""), corev1.VolumeBound)
	names := map[string]string{}
	for _, d := range plan(n.found) {
		names[d.device.Path] = d.name
	}
	for path, hashed := range map[string]bool{"/dev/a": true, "/dev/x/a": true, "/dev/b": false, "/dev/c": true} {
		if plain := plainName("n", path); (names[path] != plain) != hashed || !strings.HasPrefix(names[path], plain) {
			t.Errorf("the PV of %s is named %s; with a hash: %v", path, names[path], hashed)
		}
	}
}

// hadClaim makes the PV one whose claimRef an administrator removed.
func hadClaim(_ *node, pv *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, contract.AnnBoundByController, "yes")
}

func TestPlanWithPV(t *testing.T) {
	a := device("/dev/a", 1, diskA)
	has := func(phase corev1.PersistentVolumePhase, edit func(*node, *corev1.PersistentVolume)) func(*node) {
		return func(n *node) {
			n.attach(a)
			if pv := n.made(pvA, a, phase); edit != nil {
				edit(n, pv)
			}
		}
	}
	noConfigMap := func(n *node, _ *corev1.PersistentVolume) { n.spec, n.devices = nil, nil }
	unreadable := func(n *node, _ *corev1.PersistentVolume) {
		n.devices[0].Err = errors.New("input/output error")
		n.at[a.Path] = n.devices[0]
	}
	deleted := func(_ *node, pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	partly := func(n *node, pv *corev1.PersistentVolume) { n.partly[pv.UID] = true }
	both := func(edits ...func(*node, *corev1.PersistentVolume)) func(*node, *corev1.PersistentVolume) {
		return func(n *node, pv *corev1.PersistentVolume) {
			for _, edit := range edits {
				edit(n, pv)
			}
		}
	}
	claimed := func(_ *node, pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = &corev1.ObjectReference{Name: "c"} }
	checkPlan(t, []planRow{
		{"available", has(corev1.VolumeAvailable, nil), []string{"check /dev/a local-n-a available"}, ""},
		{"pending", has(corev1.VolumePending, nil), []string{"check /dev/a local-n-a available"}, ""},
		{"bound", has(corev1.VolumeBound, nil), []string{"keep /dev/a local-n-a bound"}, ""},
		{"released", has(corev1.VolumeReleased, nil), []string{"release /dev/a local-n-a released"}, ""},
		{"failed", has(corev1.VolumeFailed, func(_ *node, pv *corev1.PersistentVolume) { pv.Status.Message = "recycler" }),
			[]string{"stop /dev/a local-n-a error"}, "the PV has the phase Failed: recycler"},

		{"released, and being deleted", has(corev1.VolumeReleased, deleted), []string{"leave /dev/a local-n-a released"},
			"is being deleted"},
		{"released, without a ConfigMap", has(corev1.VolumeReleased, noConfigMap), []string{"stop /dev/a local-n-a released DeviceError"},
			"no wipe mode"},
		{"released, not readable", has(corev1.VolumeReleased, unreadable),
			[]string{"stop /dev/a local-n-a error DeviceError"}, "input/output error"},
		{"bound, not readable", has(corev1.VolumeBound, unreadable), []string{"keep /dev/a local-n-a bound"}, ""},
		{"bound, without a ConfigMap", has(corev1.VolumeBound, noConfigMap), []string{"keep /dev/a local-n-a bound"}, ""},

		{"available, without a ConfigMap", has(corev1.VolumeAvailable, noConfigMap),
			[]string{"withdraw /dev/a local-n-a available"}, "its node has no ConfigMap"},
		{"the same, and had a claim", has(corev1.VolumeAvailable, both(noConfigMap, hadClaim)),
			[]string{"check /dev/a local-n-a available"}, ""},
		{"the same, with a claimRef", has(corev1.VolumeAvailable, both(noConfigMap, claimed)),
			[]string{"keep /dev/a local-n-a available"}, ""},
		{"the same, being deleted", has(corev1.VolumeAvailable, both(noConfigMap, deleted)),
			[]string{"keep /dev/a local-n-a available"}, ""},

		{"wiped partly, bound", has(corev1.VolumeBound, partly), []string{"keep /dev/a local-n-a bound DeviceError"},
			dataLeft},
		{"wiped partly, available", has(corev1.VolumeAvailable, partly),
			[]string{"withdraw /dev/a local-n-a error"}, "when its claimRef was removed; it is offered again once it is wiped"},
		{"wiped partly, with a claimRef", has(corev1.VolumeAvailable, both(partly, claimed)),
			[]string{"keep /dev/a local-n-a error DeviceError"}, dataLeft},
		{"wiped partly, being deleted", has(corev1.VolumeAvailable, both(partly, deleted)),
			[]string{"keep /dev/a local-n-a error"}, "its PV could not be withdrawn"},
		{"wiped partly, released", has(corev1.VolumeReleased, partly), []string{"release /dev/a local-n-a released"}, ""},

		{"of another ConfigMap", has(corev1.VolumeBound,
			func(n *node, _ *corev1.PersistentVolume) { n.spec.class = "other" }),
			[]string{"keep /dev/a local-n-a bound DeviceConfigDiffers"},
			"ConfigMap /cm has another storageClassName; the PV stays"},
		{"not selected any more", has(corev1.VolumeReleased, func(n *node, _ *corev1.PersistentVolume) { n.devices = nil }),
			[]string{"release /dev/a local-n-a released"}, ""},
	})
}

// A path is no proof: only what is proven to be the disk of a Released PV is wiped.
func TestPlanIdentity(t *testing.T) {
	a, b := device("/dev/a", 1, diskA), device("/dev/b", 2, diskB)
	const unclear = "keep /dev/a local-n-a unclear DeviceUnclear"
	// The PV was made for disk A, and then something happened to the node.
	then := func(phase corev1.PersistentVolumePhase, edit func(*node, *corev1.PersistentVolume,
		*disk.Device)) func(*node) {
		return func(n *node) {
			now := a
			edit(n, n.made(pvA, a, phase), &now)
			delete(n.at, a.Path)
			n.attach(now)
		}
	}
	noID := func(_ *node, pv *corev1.PersistentVolume, d *disk.Device) {
		delete(pv.Annotations, AnnDisk)
		d.ID, d.Identity, d.Attachment = "", "", "boot-2/1"
	}
	resized := func(_ *node, _ *corev1.PersistentVolume, d *disk.Device) { d.Bytes = 800 }
	formerNode := func(n *node, _ *corev1.PersistentVolume, _ *disk.Device) { n.node.UID = "another machine" }
	checkPlan(t, []planRow{
		{"after a boot", then(corev1.VolumeReleased, func(_ *node, _ *corev1.PersistentVolume,
			d *disk.Device) {
			d.Attachment = "boot-2/9"
		}),
			[]string{"release /dev/a local-n-a released"}, ""},
		{"no ID, after a boot", then(corev1.VolumeReleased, noID), []string{unclear},
			"confirm it: kubectl annotate --overwrite pv local-n-a " + AnnConfirmed + "=boot-2/1"},
		{"the same, bound", then(corev1.VolumeBound, noID), []string{"keep /dev/a local-n-a bound DeviceUnclear"},
			"attached since"},
		{"the same, available", then(corev1.VolumeAvailable, noID),
			[]string{"withdraw /dev/a local-n-a unclear DeviceUnclear"}, "attached since"},
		{"the same, confirmed", then(corev1.VolumeReleased, func(n *node, pv *corev1.PersistentVolume, d *disk.Device) {
			noID(n, pv, d)
			pv.Annotations[AnnConfirmed] = d.Attachment
		}), []string{"release /dev/a local-n-a released"}, ""},
		{"another size", then(corev1.VolumeReleased, resized), []string{unclear}, "a disk of 100 bytes, and /dev/a has 800"},
		{"another partition table", func(n *node) {
			n.attach(a)
			n.devices[0].Start = 2 << 20
			n.at[a.Path] = n.devices[0]
			d := a
			d.Start = 1 << 20
			n.made(pvA, d, corev1.VolumeReleased)
		}, []string{unclear}, "a partition that begins at byte 1048576"},
		{"a former Node", then(corev1.VolumeReleased, formerNode), []string{unclear}, "the Node with the UID node"},
		{"a former Node, available", then(corev1.VolumeAvailable, formerNode),
			[]string{"withdraw /dev/a local-n-a unclear DeviceUnclear"}, ""},
		{"another Node's, available", then(corev1.VolumeAvailable,
			func(n *node, pv *corev1.PersistentVolume, d *disk.Device) {
				formerNode(n, pv, d)
				pv.Spec.NodeAffinity = affinity("other")
			}), []string{unclear}, ""},
		{"a PV that records nothing", then(corev1.VolumeReleased, func(_ *node, pv *corev1.PersistentVolume, _ *disk.Device) {
			delete(pv.Annotations, AnnDisk)
			delete(pv.Annotations, AnnAttachment)
		}), []string{unclear}, "does not record which disk"},
		{"an older version's PV, which its Node owns", then(corev1.VolumeReleased,
			func(_ *node, pv *corev1.PersistentVolume, _ *disk.Device) {
				delete(pv.Annotations, contract.AnnNodeUID)
				pv.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "node"}}
			}), []string{"release /dev/a local-n-a released"}, ""},
		{"a PV whose former Node owns it", then(corev1.VolumeReleased,
			func(_ *node, pv *corev1.PersistentVolume, _ *disk.Device) {
				pv.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "former"}}
			}), []string{unclear}, "the Node with the UID former"},

		{"another disk is at its path", then(corev1.VolumeReleased,
			func(_ *node, _ *corev1.PersistentVolume, d *disk.Device) {
				d.ID, d.Identity = diskB, diskB
			}), []string{"stop /dev/a unclear DeviceError", "leave local-n-a gone"},
			"PV local-n-a names it, and was made for another disk"},
		{"names swapped", func(n *node) {
			n.made(pvA, a, corev1.VolumeReleased)
			n.made(pvB, b, corev1.VolumeBound)
			n.at = map[string]disk.Device{}
			n.attach(device("/dev/a", 2, diskB), device("/dev/b", 1, diskA))
		}, []string{
			"keep /dev/a local-n-b bound DeviceUnclear", "keep /dev/b local-n-a unclear DeviceUnclear", "leave local-n-a gone",
			"leave local-n-b gone",
		}, "have /dev/a lead to the disk again"},
		{"a Bound PV on the disk of a Released one", func(n *node) {
			n.attach(a)
			n.made(pvA, a, corev1.VolumeReleased)
			n.made("other", a, corev1.VolumeBound)
		}, []string{"keep /dev/a other bound", "leave local-n-a DeviceError"}, "/dev/a is the device of PV other too"},
		{"an Available PV whose path leads to the disk of a Bound one", func(n *node) {
			n.attach(a)
			n.made(pvA, a, corev1.VolumeAvailable)
			n.made("other", a, corev1.VolumeBound)
		}, []string{"keep /dev/a other bound", "withdraw local-n-a DeviceError"}, "/dev/a is the device of PV other too"},
		{"a Bound PV by another name of it", func(n *node) {
			again := device("/dev/z", 1, diskA)
			n.attach(a, again)
			n.made(pvA, a, corev1.VolumeReleased)
			n.made("other", again, corev1.VolumeBound)
		}, []string{"keep /dev/a other bound", "leave local-n-a DeviceError"}, ""},
	})
}

// A PV protects all that has bytes of its disk, by whatever name, and nothing beside it.
func TestPlanStack(t *testing.T) {
	const busy = "stop /dev/x busy DeviceBusy"
	part := func(id string, n int) string { return fmt.Sprintf("%s-part%d", id, n) }
	layers := func(numbers ...uint32) (all []disk.Layer) {
		for _, n := range numbers {
			all = append(all, disk.Layer{Number: disk.Number{Major: 8, Minor: n}})
		}
		return all
	}
	// The PV was made for a device that its path leads to, or no longer leads to.
	row := func(id string, there bool, x disk.Device) func(*node) {
		return func(n *node) {
			n.spec.existing = true
			pv := n.made(pvA, device("/dev/a", 1, id), corev1.VolumeBound)
			if !there {
				n.detach(pv, time.Second)
			}
			n.attach(x)
		}
	}
	x := func(id string, s disk.Stack) disk.Device {
		d := device("/dev/x", 2, id)
		d.Stack = s
		return d
	}
	unnamed := x("", disk.Stack{})
	unnamed.Attachment = "boot/1-part1"
	mpath := "dm:mpath-3" + strings.TrimPrefix(diskA, "naa.")
	var rows []planRow
	for name, r := range map[string]struct {
		found func(*node)
		want  []string
	}{
		"a partition of its disk":         {row(diskA, false, x(part(diskA, 1), disk.Stack{})), []string{busy, "leave local-n-a gone"}},
		"the disk of its partition":       {row(part(diskA, 1), false, x(diskA, disk.Stack{})), []string{busy, "leave local-n-a gone"}},
		"another partition":               {row(part(diskA, 1), false, x(part(diskA, 2), disk.Stack{})), []string{"offer /dev/x wiping", "leave local-n-a gone"}},
		"a partition, without an ID":      {row("", false, unnamed), []string{busy, "leave local-n-a gone"}},
		"a logical volume of its disk":    {row(diskA, true, x("dm:LVM-a", disk.Stack{Below: layers(1)})), []string{busy, "keep /dev/a local-n-a bound"}},
		"the disk of its logical volume":  {row("dm:LVM-a", true, x(diskA, disk.Stack{Above: layers(1)})), []string{busy, "keep /dev/a local-n-a bound"}},
		"another logical volume":          {row("dm:LVM-a", true, x("dm:LVM-b", disk.Stack{Below: layers(7)})), []string{"offer /dev/x wiping", "keep /dev/a local-n-a bound"}},
		"a logical volume, the name gone": {row(diskA, false, x("dm:LVM-a", disk.Stack{Below: []disk.Layer{{Identity: diskA}}})), []string{busy, "leave local-n-a gone"}},
		"recorded as dm-multipath":        {row(mpath, true, x(part(diskA, 1), disk.Stack{})), []string{busy, "keep /dev/a local-n-a bound"}},
		"dm-multipath at another name":    {row(mpath, false, x(diskA, disk.Stack{})), []string{"keep /dev/x local-n-a bound DeviceUnclear", "leave local-n-a gone"}},
	} {
		rows = append(rows, planRow{name, r.found, r.want, ""})
	}
	checkPlan(t, rows)
	// And right before the write.
	for name, id := range map[string]string{"a partition of its disk": part(diskA, 1), "its disk": diskA} {
		n := emptyNode(t)
		pv := n.made(pvA, device("/dev/not-here", 1, diskA), corev1.VolumeBound)
		if err := onDevice(hostDevices{}, pv, target{device: device("/dev/x", 2, id), node: n.node}); !errors.Is(err, disk.ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An annotation that a report asks for ends the state that asks for it.
func TestPlanAdviceHelps(t *testing.T) {
	a := device("/dev/a", 1, diskA)
	for name, row := range map[string]struct {
		made, found disk.Device
		edit        func(n *node, pv *corev1.PersistentVolume)
		path        string // to which the report says that a name has to lead; "" if it asks for an annotation
	}{
		"another size": {a, func() disk.Device { d := a; d.Bytes = 800; return d }(), nil, ""},
		"after a boot": {device("/dev/a", 1, ""), device("/dev/a", 2, ""), nil, ""},
		"another Node": {a, a, func(n *node, _ *corev1.PersistentVolume) { n.node.UID = "again" }, ""},
		"another Node and size, no ID": {device("/dev/a", 1, ""), func() disk.Device { d := device("/dev/a", 2, ""); d.Bytes = 1; return d }(),
			func(n *node, _ *corev1.PersistentVolume) { n.node.UID = "again" }, ""},
		"an ID of the slot": {a, device("/dev/a", 2, ""), func(_ *node, pv *corev1.PersistentVolume) { pv.Annotations[AnnDisk] = "serial:QM00001" }, ""},
		"multipath, another size": {device("/dev/a", 1, diskA), func() disk.Device { d := a; d.Bytes = 800; return d }(),
			func(_ *node, pv *corev1.PersistentVolume) {
				pv.Annotations[AnnDisk] = "dm:mpath-3" + strings.TrimPrefix(diskA, "naa.")
			}, ""},
		"the ID is not read any more": {a, device("/dev/a", 2, ""), nil, ""},
		"records nothing": {a, a, func(_ *node, pv *corev1.PersistentVolume) {
			pv.Annotations, pv.OwnerReferences = map[string]string{}, nil
		}, ""},
		"another name":                   {a, device("/dev/x", 1, diskA), nil, "/dev/a"},
		"another name of a disk, no ID":  {device("/dev/a", 1, ""), device("/dev/x", 1, ""), nil, "/dev/a"},
		"another name, and another size": {a, func() disk.Device { d := device("/dev/x", 1, diskA); d.Bytes = 800; return d }(), nil, "/dev/a"},
	} {
		t.Run(name, func(t *testing.T) {
			n := emptyNode(t)
			pv := n.made(pvA, row.made, corev1.VolumeReleased)
			n.detach(pv, time.Second)
			if row.found.Path == row.made.Path {
				delete(n.at, row.made.Path)
			}
			n.attach(row.found)
			if row.edit != nil {
				row.edit(n, pv)
			}
			d := plan(n.found)[0]
			if row.path != "" {
				if d.report.Confirm != "" || !strings.Contains(d.report.Why, "have "+row.path+" lead to the disk") {
					t.Errorf("it asks for %q: %s", d.report.Confirm, d.report.Why)
				}
				return
			}
			key, value, asks := strings.Cut(d.report.Confirm, "=")
			pv.Annotations[key] = value
			if now := plan(n.found)[0]; !asks || now.action != release {
				t.Errorf("the PV has %q now, and the state is %s: %s", d.report.Confirm, now.report.State, now.report.Why)
			}
		})
	}
}

func TestPlanDiskIsGone(t *testing.T) {
	a := device("/dev/a", 1, diskA)
	gone := func(phase corev1.PersistentVolumePhase, since time.Duration) func(*node) {
		return func(n *node) { n.detach(n.made(pvA, a, phase), since) }
	}
	checkPlan(t, []planRow{
		{"available, for a moment", gone(corev1.VolumeAvailable, time.Second), []string{"leave local-n-a gone"},
			"the device /dev/a is gone"},
		{"available", gone(corev1.VolumeAvailable, absence), []string{"withdraw local-n-a gone"},
			"the device /dev/a is gone"},
		{"available, and had a claim", func(n *node) {
			pv := n.made(pvA, a, corev1.VolumeAvailable)
			hadClaim(n, pv)
			n.detach(pv, absence)
		}, []string{"leave local-n-a gone DeviceGone"}, ""},
		{"bound", gone(corev1.VolumeBound, absence), []string{"leave local-n-a gone DeviceGone"}, ""},
		{"released", gone(corev1.VolumeReleased, absence), []string{"leave local-n-a gone DeviceGone"}, ""},
		{"another Node's, available", func(n *node) {
			pv := n.made(pvA, a, corev1.VolumeAvailable)
			n.node.UID, pv.Spec.NodeAffinity = "new", affinity("other")
			n.detach(pv, absence)
		}, []string{"leave local-n-a gone"}, ""},
		{"it is at another path", func(n *node) {
			n.detach(n.made(pvA, a, corev1.VolumeReleased), absence)
			n.attach(device("/dev/x", 1, diskA))
		}, []string{"keep /dev/x local-n-a unclear DeviceUnclear", "leave local-n-a gone DeviceGone"},
			"its disk " + diskA + " is at /dev/x"},
	})
	n := emptyNode(t)
	pv := n.made(pvA, a, corev1.VolumeBound)
	n.detach(pv, time.Minute)
	if d := plan(n.found); !d[0].since.Equal(n.now.Add(-time.Minute)) {
		t.Errorf("gone since %s, want a minute before %s", d[0].since, n.now)
	}
	delete(n.gone, pv.UID)
	if d := plan(n.found); !d[0].since.Equal(n.now) || len(d[0].warnings) > 0 {
		t.Errorf("gone since %s, %q; want the time of the first pass that missed it, %s", d[0].since, outcomes(d), n.now)
	}
}

// While the disk of a claim's PV is not known, `existing: wipe` does not apply: any disk may be
// that one.
func TestPlanUnknownDisk(t *testing.T) {
	a := device("/dev/a", 1, "")
	for _, row := range []struct {
		name  string
		found func(n *node)
		may   bool
	}{
		{"no PV", func(*node) {}, true},
		{"known", func(n *node) { n.made(pvA, a, corev1.VolumeBound) }, true},
		{"gone, with an ID", func(n *node) { n.detach(n.made(pvA, device("/dev/a", 1, diskA), corev1.VolumeBound), 0) },
			true},
		{"gone, without an ID", func(n *node) { n.detach(n.made(pvA, a, corev1.VolumeBound), 0) }, false},
		{"gone, released", func(n *node) { n.detach(n.made(pvA, a, corev1.VolumeReleased), 0) }, false},
		{"gone, without a claim", func(n *node) { n.detach(n.made(pvA, a, corev1.VolumeAvailable), 0) }, true},
		{"attached again", func(n *node) {
			n.made(pvA, a, corev1.VolumeBound)
			again := device("/dev/a", 9, "")
			n.at[a.Path] = again
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := emptyNode(t)
			n.spec.existing = true
			row.found(n)
			n.attach(device("/dev/b", 2, diskB))
			for _, d := range plan(n.found) {
				if d.action != offer {
					continue
				}
				if d.spec.existing != row.may {
					t.Errorf("existing: wipe applies to %s: %v, want %v", d.device.Path, d.spec.existing, row.may)
				}
				if (d.spec.unknown == pvA) == row.may {
					t.Errorf("the unknown disk is that of PV %q", d.spec.unknown)
				}
				return
			}
			t.Error("the other disk is not offered")
		})
	}
}

// A PV that is withdrawn and had a claim before leaves its data on the device: that is not wiped, also if
// the PV is of a Node that was made again.
func TestPlanHolds(t *testing.T) {
	for _, had := range []bool{false, true} {
		for what, unclear := range map[string]func(n *node, pv *corev1.PersistentVolume){
			"at another name": func(n *node, pv *corev1.PersistentVolume) {
				n.detach(pv, 0)
				n.attach(device("/dev/b", 1, diskA))
			},
			"of a Node that was made again": func(n *node, pv *corev1.PersistentVolume) {
				n.attach(device("/dev/a", 1, diskA))
				pv.Annotations[contract.AnnNodeUID] = "former"
			},
		} {
			n := emptyNode(t)
			pv := n.made(pvA, device("/dev/a", 1, diskA), corev1.VolumeAvailable)
			if unclear(n, pv); had {
				hadClaim(n, pv)
			}
			i := slices.IndexFunc(plan(n.found), func(d decision) bool { return d.pv == pv && d.action == withdraw })
			if i < 0 {
				t.Errorf("%s: the PV is not withdrawn: %q", what, outcomes(plan(n.found)))
			} else if d := plan(n.found)[i]; d.holds != had {
				t.Errorf("%s, had a claim: %v: holds: %v", what, had, d.holds)
			}
		}
	}
}
