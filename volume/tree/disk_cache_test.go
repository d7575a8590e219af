//go:build disk

package tree_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// What is copied byte by byte does not stay in the cache, which counts against the memory of the agent.
func TestDiskCopyLeavesNothingInTheCache(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			from, to := testdisk.Mount(t, kind), testdisk.Mount(t, kind)
			write(t, filepath.Join(from, "entry/data"), strings.Repeat("0123456789abcdef", 2<<20)) // 32 MiB
			shell(t, from, "sync -f .")
			path, made, err := copyAs(t, from, to, tree.CopyOptions{})
			if err != nil || made.Bytes != 32<<20 {
				t.Fatalf("%+v, %v", made, err)
			}
			for _, dir := range []string{filepath.Join(from, "entry"), path} {
				cached, err := strconv.Atoi(strings.TrimSpace(shell(t, dir, "fincore -b -n -o RES data")))
				if err != nil || cached > 4<<20 {
					t.Errorf("%d bytes of %s are in the cache, %v", cached, dir, err)
				}
			}
		})
	}
}
