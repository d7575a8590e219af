package monitor

import (
	"slices"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// SharedWithOS reports whether path is on a filesystem of the operating system: that
// of /, or that of /var/lib/kubelet, from which a container has /etc/hosts. It returns
// an error if path does not exist.
func SharedWithOS(path string) (bool, error) {
	if _, err := mount.Of(path); err != nil {
		return false, err
	}
	return slices.ContainsFunc([]string{"/", "/etc/hosts", "/var/lib/kubelet"}, func(os string) bool {
		same, err := mount.SameFilesystem(path, os)
		return err == nil && same
	}), nil
}
