package pooldir

import (
	"errors"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

func TestSystemDirectories(t *testing.T) {
	for _, path := range []string{"/mnt", "/mnt/x", "/home/pool", "/data", "/var/hpvolumes", "/tmp/x", "/opt/x", "/srv",
		"/var/lib/pool", "/var/lib/kubelet2", "/libs", "/devices"} {
		if err := checkSystem(path); err != nil {
			t.Error(err)
		}
	}
	for _, path := range append(systemTrees(), sharedDirs()...) {
		if err := checkSystem(path); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
