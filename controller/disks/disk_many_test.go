//go:build disk

package disks

import (
	"fmt"
	"testing"
	"time"
)

// A node with 64 disks: all are offered by one pass of a controller that starts, and one that comes later, too.
// docs/limits.md has the seconds.
func TestDiskManyOfANode(t *testing.T) {
	b := newBench(t)
	b.await(Available)
	b.stop()
	paths := []string{b.path}
	for i := range 63 {
		paths = append(paths, b.attach(fmt.Sprintf("disk-%02d", i), 8<<20))
	}
	began := time.Now()
	b.start()
	for _, path := range paths {
		b.report(path, Available)
	}
	t.Logf("%d disks were offered after %s", len(paths), time.Since(began).Round(10*time.Millisecond))
	if pvs := allPVs(t, b.client); len(pvs) != len(paths) {
		t.Errorf("%d PVs of %d disks", len(pvs), len(paths))
	}
	last := b.attach("disk-last", 8<<20)
	began = time.Now()
	b.report(last, Available)
	t.Logf("one more after %s", time.Since(began).Round(10*time.Millisecond))
}
