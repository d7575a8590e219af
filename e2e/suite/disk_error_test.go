package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// A filesystem that found an error in itself takes no more writes. Claims wait and are told why;
// once the disk is mended and mounted again, all goes on.
func TestDiskError(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	disk := s.Disk("ext4", diskSize)
	disk.Mount(node.Pool, "-o", "errors=remount-ro")
	a := s.Agent(node, harness.Options{})
	kept, deleted := s.Create(harness.Claim{Node: node.Name}), s.Create(harness.Claim{Node: node.Name})
	path := s.Bound(kept).Spec.HostPath.Path
	s.Write(path, "data", []byte("precious"))
	s.Bound(deleted)

	disk.Fail()
	deletions := s.Queue(a, harness.QueueVolumes)
	waiting := s.Create(harness.Claim{Node: node.Name})
	s.Delete(deleted)
	s.Eventually("event", func() error {
		for _, e := range s.Events(waiting.UID) {
			if e.Ours() && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, "read-only") {
				return nil
			}
		}
		return fmt.Errorf("none says read-only: %v", s.Events(waiting.UID))
	})
	s.Until("no writes", deletions.TriedAgain, func() error {
		if s.IsGone(harness.PVName(deleted)) == nil {
			return errors.New("the PV of the deleted claim is gone, its data is not")
		}
		return s.IsPending(waiting)
	})

	a.AwaitUnready("met an error and writes no more")

	s.Unmount(node.Pool)
	a.AwaitUnready("not mounted")
	disk.Mount(node.Pool)
	s.Bound(waiting)
	s.Gone(harness.PVName(deleted))
	a.AwaitReady()
	if data, err := os.ReadFile(filepath.Join(path, "data")); string(data) != "precious" {
		t.Errorf("data: %q, %v", data, err)
	}
}
