package monitor

import "kubevirt.io/hostpath-provisioner/volume/mount"

// SharedWithOS reports whether path lies on a filesystem of the operating
// system: the one of /, or, seen from a container, the kubelet's, which it
// shows by mounting /etc/hosts from there. A path that is not there counts
// for nothing.
func SharedWithOS(path string) (bool, error) {
	if _, err := mount.Of(path); err != nil {
		return false, err
	}
	for _, os := range []string{"/", "/etc/hosts", "/var/lib/kubelet"} {
		if same, err := mount.SameFilesystem(path, os); err == nil && same {
			return true, nil
		}
	}
	return false, nil
}
