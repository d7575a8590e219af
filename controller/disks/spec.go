package disks

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// spec is a parsed ConfigMap: which devices of a node are offered, and how.
type spec struct {
	namespace, configMap string
	class                string
	mode                 corev1.PersistentVolumeMode
	fsType               string   // of Filesystem
	options              []string // of mounts of Filesystem
	dir                  string
	filter               *regexp.Regexp
	wipe                 disk.Mode
	existing             bool // devices that carry data are wiped
	// unknown is the PV with a claim and an unknown disk for which existing was set to false; "" if
	// there is none.
	unknown string
	// taken is why the host has the device, for which existing was set to false; "" if it does not.
	taken string
}

// same reports whether a failed job would do the same again with the spec o.
func (s *spec) same(o *spec) bool {
	return s.configMap == o.configMap && s.wipe == o.wipe && s.existing == o.existing && s.unknown == o.unknown &&
		s.class == o.class && s.mode == o.mode && s.fsType == o.fsType && slices.Equal(s.options, o.options)
}

var fsTypes = []string{"ext4", "xfs", "btrfs"}

// CheckConfigMap returns an error that names each mistake in a ConfigMap of devices.
func CheckConfigMap(cm *corev1.ConfigMap) error {
	_, err := parseSpec(cm)
	return err
}

// parseSpec parses a ConfigMap. It ignores unknown keys, as local-pv-provisioner does. The error
// names each mistake.
func parseSpec(cm *corev1.ConfigMap) (*spec, error) {
	s := &spec{
		namespace: cm.Namespace, configMap: cm.Name,
		mode: corev1.PersistentVolumeMode(cm.Data[keyMode]), dir: cm.Data[keyDir], wipe: disk.Zero,
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var has bool
	if s.class, has = cm.Data[keyClass]; !has {
		wrong("%s is missing", keyClass)
	}
	switch s.mode {
	case corev1.PersistentVolumeBlock:
	case corev1.PersistentVolumeFilesystem:
		if s.fsType = cm.Data[keyFSType]; !slices.Contains(fsTypes, s.fsType) {
			wrong("%s %q is none of ext4, xfs and btrfs", keyFSType, s.fsType)
		}
	default:
		wrong("%s %q is neither Filesystem nor Block", keyMode, s.mode)
	}
	if !filepath.IsAbs(s.dir) {
		wrong("%s %q is not an absolute path", keyDir, s.dir)
	}
	var err error
	if filter, has := cm.Data[keyFilter]; !has {
		wrong("%s is missing", keyFilter)
	} else if s.filter, err = regexp.Compile(filter); err != nil {
		wrong("%s: %w", keyFilter, err)
	}
	if wipe, has := cm.Data[keyWipe]; has {
		if s.wipe, err = disk.ParseMode(wipe); err != nil {
			wrong("%s: %w", keyWipe, err)
		}
	}
	switch existing := cm.Data[keyExisting]; existing {
	case existingWipe:
		s.existing = true
	case "", existingKeep:
	default:
		wrong("%s %q is neither refuse nor wipe", keyExisting, existing)
	}
	if s.options, err = parseOptions(cm.Data[keyOptions]); err != nil {
		wrong("%s: %w", keyOptions, err)
	} else if len(s.options) > 0 && s.mode == corev1.PersistentVolumeBlock {
		wrong("%s: the volume mode is Block, and nothing is mounted; remove the key", keyOptions)
	}
	// Ignoring the key would leave the data of a user who wants encryption in the clear.
	if encrypt := cm.Data[keyEncrypt]; encrypt != "" && encrypt != "false" {
		wrong("%s: devices are not encrypted; remove the key", keyEncrypt)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// namesSlots reports whether the kubelet makes filesystems at paths that another disk can have: those
// of the kernel and of udev that name where a disk is attached.
func (s *spec) namesSlots() bool {
	dir := filepath.Clean(s.dir)
	return s.mode == corev1.PersistentVolumeFilesystem && (dir == "/dev" || dir == "/dev/disk/by-path")
}

var mountOption = regexp.MustCompile(`^[a-z0-9_][a-z0-9_.-]*(=[!-+\--~]+)?$`)

// notMountOptions are options with which the kubelet would not mount a disk that pods can write to.
var notMountOptions = []string{"ro", "remount", "bind", "rbind", "move", "loop", "offset", "sizelimit"}

// parseOptions parses mount options separated by commas, as in fstab. It refuses malformed options
// and notMountOptions. Only the kubelet finds out at the mount whether the filesystem has an
// option.
func parseOptions(text string) (options []string, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for option := range strings.SplitSeq(text, ",") {
		option = strings.TrimSpace(option)
		name, _, _ := strings.Cut(option, "=")
		switch {
		case !mountOption.MatchString(option):
			return nil, fmt.Errorf("%q is no mount option", option)
		case slices.Contains(notMountOptions, name):
			return nil, fmt.Errorf("%q is not for a volume that pods write to", option)
		}
		options = append(options, option)
	}
	return options, nil
}

// annotations returns the annotations of PVs that are made from the spec.
func (s *spec) annotations() map[string]string {
	all := map[string]string{
		annPrefix + keyClass: s.class, annPrefix + keyMode: string(s.mode),
		annPrefix + keyDir: s.dir, annPrefix + keyFilter: s.filter.String(),
	}
	if s.mode == corev1.PersistentVolumeFilesystem {
		all[annPrefix+keyFSType] = s.fsType
	}
	return all
}

// differences returns the keys of the spec in which a PV differs. It returns none for a PV without
// annotations, which an old version made.
func (s *spec) differences(pv *corev1.PersistentVolume) (keys []string) {
	if _, has := pv.Annotations[annPrefix+keyClass]; !has {
		return nil
	}
	for name, value := range s.annotations() {
		if pv.Annotations[name] != value {
			keys = append(keys, name[len(annPrefix):])
		}
	}
	if !slices.Equal(pv.Spec.MountOptions, s.options) {
		keys = append(keys, keyOptions)
	}
	slices.Sort(keys)
	return keys
}
