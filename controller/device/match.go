package device

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	corev1 "k8s.io/api/core/v1"

	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// slot is one device with the paths that lead to it and the PVs that are on it.
type slot struct {
	device disk.Device
	paths  []string // others that lead to it
	listed bool     // in the directory of the ConfigMap
	pvs    []*corev1.PersistentVolume
}

// match finds out which PV is on which device. A device is its number, whatever path leads to it;
// what cannot be read has a slot of its own. gone are PVs whose path leads nowhere.
func match(devices []disk.Device, pvs []*corev1.PersistentVolume) (slots []*slot, gone []*corev1.PersistentVolume) {
	byNumber, byPath := map[disk.Number]*slot{}, map[string]*slot{}
	add := func(d disk.Device, listed bool) *slot {
		if s := byNumber[d.Number]; d.Err == nil && s != nil {
			if d.Path != s.device.Path {
				s.paths = append(s.paths, d.Path)
			}
			return s
		}
		if s := byPath[d.Path]; s != nil {
			return s
		}
		s := &slot{device: d, listed: listed}
		slots, byPath[d.Path] = append(slots, s), s
		if d.Err == nil {
			byNumber[d.Number] = s
		}
		return s
	}
	for _, d := range devices {
		add(d, true)
	}
	for _, pv := range pvs {
		d := disk.At(localPath(pv))
		if errors.Is(d.Err, fs.ErrNotExist) {
			gone = append(gone, pv)
			continue
		}
		s := add(d, false)
		s.pvs = append(s.pvs, pv)
		s.prefer(d.Path)
	}
	for _, s := range slots {
		slices.SortStableFunc(s.pvs, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(rank(a), rank(b)) })
		slices.Sort(s.paths)
		s.paths = slices.Compact(s.paths)
	}
	return slots, gone
}

// prefer makes the path of a PV the one that the device is known by.
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

// rank orders the PVs of one device: the one that has to be respected most comes first.
func rank(pv *corev1.PersistentVolume) int {
	switch pv.Status.Phase {
	case corev1.VolumeBound:
		return 0
	case corev1.VolumeReleased:
		return 1
	case corev1.VolumeFailed:
		return 2
	}
	return 3
}
