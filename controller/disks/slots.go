package disks

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	"kubevirt.io/hostpath-provisioner/volume/disk"
	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

// slot is one device, with the paths that lead to it and the PVs that may be on it.
type slot struct {
	device disk.Device
	first  string        // the path by which it was found first
	paths  []string      // others that lead to it
	twins  []disk.Device // with another number and the same ID: other paths to the disk, or its clones
	listed bool          // in the directory of the ConfigMap
	pvs    []placed
	// displaced is a PV that names a path of the device and was made for another disk; nil if there
	// is none.
	displaced *corev1.PersistentVolume
}

// placed is a PV, with the finding whether a device is its disk.
type placed struct {
	*corev1.PersistentVolume
	identity.Finding
	// elsewhere is set if the disk was found at another path than that of the PV.
	elsewhere bool
}

// slotList is the devices of a node.
type slotList []*slot

// match finds out which PV is on which device. A device is its number, whatever path leads to it,
// and two devices that report one WWN are one disk. A path that cannot be read has a slot of its
// own.
//
// gone are PVs whose disk is not at their path. If another device has the ID that such a PV
// records, the PV is on that device, too, so that the device is not offered again.
func match(f found) (all slotList, gone []placed) {
	for _, d := range f.devices {
		all.add(d).listed = true
	}
	for _, pv := range f.pvs {
		d := f.at[localPath(pv)]
		p := placed{PersistentVolume: pv, Finding: whose(pv, d, f.node)}
		if errors.Is(d.Err, fs.ErrNotExist) {
			p.Finding = identity.Finding{Answer: identity.Foreign, Why: fmt.Sprintf("the device %s is gone", d.Path)}
		} else if s := all.add(d); p.Answer == identity.Foreign {
			s.displaced = pv
		} else {
			s.pvs = append(s.pvs, p)
			s.prefer(d)
		}
		if p.Answer == identity.Foreign {
			gone = append(gone, p)
		}
	}
	for _, p := range gone {
		all.find(p.PersistentVolume)
	}
	for _, s := range all {
		slices.SortStableFunc(s.pvs, func(a, b placed) int { return cmp.Compare(a.rank(), b.rank()) })
		slices.Sort(s.paths)
		s.paths = slices.Compact(s.paths)
	}
	return all, gone
}

// add returns the slot of a device, a new one if it has none.
func (all *slotList) add(d disk.Device) *slot {
	s := all.of(d)
	if s == nil {
		s = &slot{device: d, first: d.Path}
		*all = append(*all, s)
	} else if s.device.Joined && !d.Joined && len(s.pvs) == 0 {
		s.device, d = d, s.device
	}
	if d.Path != s.device.Path {
		s.paths = append(s.paths, d.Path)
	}
	if s.device.Err == nil && d.Err == nil && d.Number != s.device.Number && !d.Joined && !s.device.Joined {
		s.twins = append(s.twins, d)
	}
	return s
}

// of returns the slot of the disk that a device leads to, nil if there is none.
func (all slotList) of(d disk.Device) *slot {
	for _, same := range []func(*slot) bool{
		func(s *slot) bool { return d.Err == nil && s.device.Err == nil && s.device.Number == d.Number },
		func(s *slot) bool { // the twins are the same disk
			return d.Err == nil && s.device.Err == nil && d.Identity != "" && slices.Contains(d.Twins, s.device.Number)
		},
		func(s *slot) bool { return s.first == d.Path },
	} {
		if i := slices.IndexFunc(all, same); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// find adds a PV whose disk is not at its path to the device that has the recorded ID, or without
// one the recorded attachment.
func (all slotList) find(pv *corev1.PersistentVolume) {
	r := recorded(pv)
	id := r.LastingID()
	for _, s := range all {
		is := id.Known() && diskid.Parse(s.device.Identity) == id ||
			!id.Known() && r.Attachment != "" && r.Attachment == s.device.Attachment && r.Bytes == s.device.Bytes
		if is && s.device.Err == nil {
			why := fmt.Sprintf("the PV names %s, and its disk%s is at %s",
				localPath(pv), strings.TrimRight(" "+id.String(), " "), s.device.Path)
			s.pvs = append(s.pvs, placed{pv, identity.Finding{Answer: identity.Unclear, Why: why}, true})
		}
	}
}

// prefer has the device be the one at the path of its first PV.
func (s *slot) prefer(d disk.Device) {
	if len(s.pvs) != 1 || s.device.Path == d.Path {
		return
	}
	others := slices.DeleteFunc(s.paths, func(p string) bool { return p == d.Path })
	if s.listed {
		others = append(others, s.device.Path)
	}
	s.twins = append(s.twins, s.device)
	s.twins = slices.DeleteFunc(s.twins, func(twin disk.Device) bool { return twin.Number == d.Number })
	s.device, s.paths = d, others
}

// touched returns a PV that is on another device, and has bytes of this one: a partition of its
// disk, what lies on it or below it, or the disk itself by a name that the PV does not have. It
// returns nil if there is none.
func (f found) touched(s *slot) *corev1.PersistentVolume {
	d := s.device
	i := slices.IndexFunc(f.pvs, func(pv *corev1.PersistentVolume) bool {
		at, r := f.at[localPath(pv)], recorded(pv)
		there := at.Err == nil && at.Number != d.Number && (d.Stack.Has(at.Number) || at.Stack.Has(d.Number))
		return there || d.Shares(r.LastingID()) || at.Err != nil && sharesAttachment(r, d)
	})
	if i < 0 {
		return nil
	}
	return f.pvs[i]
}

// sharesAttachment reports whether a PV that records no ID was made for a device, a partition of
// it, or the disk that it is a partition of, in this boot.
func sharesAttachment(r identity.RecordedDisk, d disk.Device) bool {
	was, is := diskid.Parse(r.Attachment), diskid.Parse(d.Attachment)
	return !r.LastingID().Known() && (was.Within(is) || is.Within(was))
}

// rank orders the PVs of one device. The first decides about the device.
func (p placed) rank() int {
	switch p.Status.Phase {
	case corev1.VolumeBound:
		return 0
	case corev1.VolumeReleased:
		return 1
	case corev1.VolumeFailed:
		return 2
	}
	return 3
}
