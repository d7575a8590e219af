//go:build disk

package volume_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// What a walk found in a volume is not the use of another one that has its name
// since, also if both were made within a second.
func TestDiskMeasureWhileAVolumeIsReplaced(t *testing.T) {
	memory := t.TempDir() // where many files are made and walked within a second
	testdisk.Root(t)
	ok(t, unix.Mount("none", memory, "tmpfs", 0, "nr_inodes=0"))
	t.Cleanup(func() { testdisk.Detach(t, memory) })
	p := opened(t, volume.Config{Path: filepath.Join(memory, "pool"), Overcommit: 1e6})
	s := spec("v", gib)
	s.Quota = record.QuotaNone
	for range 5 {
		v, err := p.Create(s)
		ok(t, err)
		write(t, filepath.Join(v.Path, "data"), string(make([]byte, mib)))
		for i := range 20000 { // so that the walk takes some time
			fd, err := unix.Open(filepath.Join(v.Path, fmt.Sprint(i)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			ok(t, err)
			unix.Close(fd)
		}
		measured := make(chan error, 1)
		go func() { measured <- p.Measure(t.Context()) }()
		time.Sleep(20 * time.Millisecond)
		ok(t, p.Delete("v"))
		_, err = p.Create(s)
		ok(t, err)
		overlapped := len(measured) == 0
		ok(t, <-measured)
		all, err := p.Usages()
		ok(t, err)
		if len(all) != 1 || all[0].Bytes >= mib {
			t.Fatalf("the new volume uses %+v", all)
		}
		if overlapped {
			return
		}
		ok(t, p.Delete("v"))
	}
	t.Error("no walk took long enough; it proves nothing")
}
