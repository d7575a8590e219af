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

// slot is one device with the paths that lead to it and the PVs that may be on it.
type slot struct {
	device disk.Device
	paths  []string // others that lead to it
	listed bool     // in the directory of the ConfigMap
	pvs    []placed
	// displaced is a PV that names a path of the device and was made for another disk; nil if there is none.
	displaced *corev1.PersistentVolume
}

// placed is a PV whose disk is a device, or may be.
type placed struct {
	*corev1.PersistentVolume
	identity.Finding
}

// absent is a PV whose disk is not at its path.
type absent struct {
	*corev1.PersistentVolume
	why string
}

// matching finds out which PV is on which device.
type matching struct {
	slots  []*slot
	number map[disk.Number]*slot
	path   map[string]*slot
}

// match finds out which PV is on which device. A device is its number, whatever path leads to it,
// and two devices that report one WWN are one disk. A path that cannot be read has a slot of its own.
//
// gone are PVs whose disk is not at their path. If another device has the ID that such a PV records,
// the PV is on that device, too, so that the device is not offered again.
func match(f found) (slots []*slot, gone []absent) {
	m := &matching{number: map[disk.Number]*slot{}, path: map[string]*slot{}}
	for _, d := range f.devices {
		m.add(d, true)
	}
	for _, pv := range f.pvs {
		if why := m.place(pv, f.at[localPath(pv)], f.node); why != "" {
			gone = append(gone, absent{pv, why})
		}
	}
	for _, a := range gone {
		m.find(a.PersistentVolume)
	}
	for _, s := range m.slots {
		slices.SortStableFunc(s.pvs, func(a, b placed) int {
			return cmp.Compare(rank(a.PersistentVolume), rank(b.PersistentVolume))
		})
		slices.Sort(s.paths)
		s.paths = slices.Compact(s.paths)
	}
	return m.slots, gone
}

// add returns the slot of a device, a new one if it has none.
func (m *matching) add(d disk.Device, listed bool) *slot {
	if s := m.of(d); s != nil {
		if d.Path != s.device.Path {
			s.paths = append(s.paths, d.Path)
		}
		return s
	}
	if s := m.path[d.Path]; s != nil {
		return s
	}
	s := &slot{device: d, listed: listed}
	m.slots, m.path[d.Path] = append(m.slots, s), s
	if d.Err == nil {
		m.number[d.Number] = s
	}
	return s
}

// of returns the slot of the disk that a device leads to, nil if there is none.
func (m *matching) of(d disk.Device) *slot {
	if d.Err != nil {
		return nil
	}
	if s := m.number[d.Number]; s != nil {
		return s
	}
	if d.Identity != "" { // the twins are the same disk
		for _, n := range d.Twins {
			if s := m.number[n]; s != nil {
				return s
			}
		}
	}
	return nil
}

// place adds a PV to the device at its path. It returns why the PV's disk is not there, "" if it is
// or may be.
func (m *matching) place(pv *corev1.PersistentVolume, d disk.Device, node *corev1.Node) (why string) {
	if errors.Is(d.Err, fs.ErrNotExist) {
		return fmt.Sprintf("the device %s is gone", d.Path)
	}
	s := m.add(d, false)
	finding := whose(pv, d, node)
	if finding.Answer == identity.Foreign {
		s.displaced = pv
		return finding.Why
	}
	s.pvs = append(s.pvs, placed{pv, finding})
	s.prefer(d.Path)
	return ""
}

// find adds a PV whose disk is not at its path to the device that has the recorded ID.
func (m *matching) find(pv *corev1.PersistentVolume) {
	id := recorded(pv).LastingID()
	if id == "" {
		return
	}
	for _, s := range m.slots {
		if s.device.Err == nil && s.device.Identity == id {
			why := fmt.Sprintf("the PV names %s, and its disk %s is at %s: have that name lead to the disk again",
				localPath(pv), id, s.device.Path)
			s.pvs = append(s.pvs, placed{pv, identity.Finding{Answer: identity.Unclear, Why: why}})
		}
	}
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
