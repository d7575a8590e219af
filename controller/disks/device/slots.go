package device

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// slot is one device, with the paths that lead to it and the PVs that may be on it.
type slot struct {
	device disk.Device
	first  string   // the path by which it was found first
	paths  []string // others that lead to it
	listed bool     // in the directory of the ConfigMap
	pvs    []placed
	// displaced is a PV that names a path of the device and was made for another disk; nil if there
	// is none.
	displaced *corev1.PersistentVolume
}

// placed is a PV, with the finding whether a device is its disk.
type placed struct {
	*corev1.PersistentVolume
	identity.Finding
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
		p := placed{pv, whose(pv, d, f.node)}
		if errors.Is(d.Err, fs.ErrNotExist) {
			p.Finding = identity.Finding{Answer: identity.Foreign, Why: fmt.Sprintf("the device %s is gone", d.Path)}
		} else if s := all.add(d); p.Answer == identity.Foreign {
			s.displaced = pv
		} else {
			s.pvs = append(s.pvs, p)
			s.prefer(d.Path)
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
	} else if d.Path != s.device.Path {
		s.paths = append(s.paths, d.Path)
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

// find adds a PV whose disk is not at its path to the device that has the recorded ID.
func (all slotList) find(pv *corev1.PersistentVolume) {
	id := recorded(pv).LastingID()
	for _, s := range all {
		if id != "" && s.device.Err == nil && s.device.Identity == id {
			why := fmt.Sprintf("the PV names %s, and its disk %s is at %s: have that name lead to the disk again",
				localPath(pv), id, s.device.Path)
			s.pvs = append(s.pvs, placed{pv, identity.Finding{Answer: identity.Unclear, Why: why}})
		}
	}
}

// prefer names the device by the path of its first PV.
func (s *slot) prefer(path string) {
	if len(s.pvs) != 1 || s.device.Path == path {
		return
	}
	others := slices.DeleteFunc(s.paths, func(p string) bool { return p == path })
	if s.listed {
		others = append(others, s.device.Path)
	}
	s.device.Path, s.paths = path, others
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
