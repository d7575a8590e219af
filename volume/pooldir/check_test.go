package pooldir

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// A path that the DaemonSet does not mount is in the container's own filesystem: no disk of the node
// is to be mounted for writing.
func TestMessagesNameAMissingMount(t *testing.T) {
	for filesystem, want := range map[uint32]string{
		unix.XFS_SUPER_MAGIC:       "mount it for writing",
		unix.OVERLAYFS_SUPER_MAGIC: "add a volume and a mount for it to the DaemonSet",
	} {
		if err := readOnly("/data", filesystem); !errors.Is(err, fault.ErrNotReady) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%#x: %v, want %q", filesystem, err, want)
		}
	}
	if err := unreachable("/data", fs.ErrNotExist); !strings.HasSuffix(err.Error(), "in a container it also needs a volume and a mount") {
		t.Error(err)
	}
}

// What a container writes into its own filesystem ends with it.
func TestNoPoolInTheContainerItself(t *testing.T) {
	for _, c := range []struct {
		mounted string
		pid     int
		refused bool
	}{{"/", 1, true}, {"/data", 1, false}, {"/", 4711, false}} {
		if err := checkOutside("/data", c.mounted, c.pid); errors.Is(err, fault.ErrInvalid) != c.refused {
			t.Errorf("mount %s, process %d: %v", c.mounted, c.pid, err)
		}
	}
}
