//go:build disk

package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// The data of one file may change: its copy is of one moment. The writer numbers all blocks, one
// after the other, so a copy of one moment has at most one step down.
func TestDiskCopyOfOneFileIsOfOneMoment(t *testing.T) {
	for _, kind := range []string{"xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			dir := testdisk.Mount(t, kind)
			write(t, filepath.Join(dir, "entry/disk.img"), strings.Repeat("\x00", 4<<20))
			write(t, filepath.Join(dir, "entry/empty"), "")
			file, err := os.OpenFile(filepath.Join(dir, "entry/disk.img"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var round, at atomic.Uint32
			end := racing(func() {
				block := bytes.Repeat([]byte{byte(round.Load())}, 4096)
				_, _ = file.WriteAt(block, int64(at.Load())*4096)
				if at.Add(1) == 1024 {
					at.Store(0)
					round.Add(1)
				}
			})
			defer end()
			for range 20 {
				path, made, err := copyAs(t, dir, dir, tree.CopyOptions{Changes: tree.ChangesOfOneFile, Share: true, Extents: tree.MaxExtents})
				if err != nil || made.Files != 1 || made.Bytes != 0 {
					t.Fatalf("%+v, %v", made, err)
				}
				data, _ := os.ReadFile(filepath.Join(path, "disk.img"))
				steps := 0
				for i := 4096; i < len(data); i += 4096 {
					if data[i] != data[i-1] {
						steps++
					}
				}
				if len(data) != 4<<20 || steps > 1 {
					t.Fatalf("%d bytes, of %d moments", len(data), steps+1)
				}
			}
			write(t, filepath.Join(dir, "entry/second"), "x")
			if _, _, err := copyAs(t, dir, dir, tree.CopyOptions{Changes: tree.ChangesOfOneFile, Share: true}); !errors.Is(err, tree.ErrManyFiles) {
				t.Error(err)
			}
		})
	}
}

// What cannot be shared, or not in time, fails before a byte is written.
func TestDiskCopyRefuses(t *testing.T) {
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			dir := way.from(t)
			to := dir
			if way.to != nil {
				to = way.to(t)
			}
			write(t, filepath.Join(dir, "entry/a/data"), "x")
			_, made, err := copyAs(t, dir, to, tree.CopyOptions{Share: true})
			if way.shared != (err == nil) || err != nil && !errors.Is(err, tree.ErrUnshared) || made.Bytes != 0 {
				t.Errorf("%+v, %v", made, err)
			}
			if !way.shared {
				return
			}
			shell(t, dir, "for i in $(seq 1 40); do printf x | dd of=entry/a/data bs=1 seek=$((i*65536)) conv=notrunc status=none; done; sync -f .")
			for extents, want := range map[int]error{10: tree.ErrExtents, 100: nil} {
				if _, _, err := copyAs(t, dir, to, tree.CopyOptions{Extents: extents}); !errors.Is(err, want) {
					t.Errorf("%d: %v", extents, err)
				}
			}
		})
	}
}

// While directories are renamed, made and removed, a copy without an error has every entry that was
// there all the time.
func TestDiskCopyOfChangesIsWholeOrFails(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		for i := range 20 {
			write(t, filepath.Join(dir, "entry", fmt.Sprint("d", i), "data"), "x")
		}
		var calm atomic.Bool
		entry := filepath.Join(dir, "entry")
		end := racing(func() {
			if calm.Load() {
				return
			}
			from, away := filepath.Join(entry, fmt.Sprint("d", rand.IntN(20))), filepath.Join(entry, "away")
			_ = os.Rename(from, away) // and back: the names before and after are the same
			_ = os.Rename(away, from)
		})
		defer end()
		whole, busy := 0, 0
		for try := range 12 {
			changes := tree.NoChanges
			if try%2 == 1 {
				changes = tree.ChangesOfFiles
			}
			calm.Store(try >= 10)
			path, made, err := copyAs(t, dir, dir, tree.CopyOptions{Changes: changes})
			switch found, _ := filepath.Glob(filepath.Join(path, "*/data")); {
			case errors.Is(err, tree.ErrBusy):
				if busy++; made.Tries != 4 || !strings.Contains(err.Error(), "changed during each of 4 tries") {
					t.Errorf("%+v, %v", made, err)
				}
			case err != nil:
				t.Fatal(err)
			case len(found) != 20:
				t.Fatalf("%d of 20 without an error", len(found))
			default:
				whole++
			}
		}
		t.Logf("%d whole, %d refused", whole, busy)
		if whole < 2 {
			t.Error("no copy, though nothing changed any more")
		}
	})
}

// Two files that swap their names while one of them is copied, and swap them back, are copied again:
// the names, inodes and the number of entries are the same before and after.
func TestDiskCopyNoticesWhatIsUndone(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		write(t, filepath.Join(dir, "entry/x"), "x")
		write(t, filepath.Join(dir, "entry/y"), "y")
		steps := 0
		pace := func(context.Context) error {
			// Two steps are of the listing, two of the copy, and then it is listed again.
			if steps++; steps == 4 || steps == 5 {
				return exchange(dir, [2]string{"x", "y"})
			}
			return nil
		}
		path, made, err := copyAs(t, dir, dir, tree.CopyOptions{Changes: tree.ChangesOfFiles, Pace: pace})
		if err != nil || made.Tries != 2 {
			t.Errorf("%+v, %v", made, err)
		}
		same(t, filepath.Join(dir, "entry"), path)
	})
}

// A file that is written all the time is no reason to fail if files may change, and one if not.
func TestDiskCopyOfFilesThatChange(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		for _, name := range []string{"a", "b", "sub/c"} {
			write(t, filepath.Join(dir, "entry", name), strings.Repeat("x", 1<<20))
		}
		file, err := os.OpenFile(filepath.Join(dir, "entry/b"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		change := func(context.Context) error { // also on a machine that runs no other thread meanwhile
			_, err := file.WriteAt([]byte("y"), rand.Int64N(1<<20))
			return err
		}
		end := racing(func() { _ = change(t.Context()) })
		_, made, err := copyAs(t, dir, dir, tree.CopyOptions{Changes: tree.ChangesOfFiles, Pace: change})
		if err != nil || made.Tries != 1 {
			t.Errorf("%+v, %v", made, err)
		}
		_, made, err = copyAs(t, dir, dir, tree.CopyOptions{Pace: change})
		if end(); !errors.Is(err, tree.ErrBusy) || !strings.Contains(err.Error(), ": b changed") {
			t.Errorf("%+v, %v", made, err)
		}
	})
}

// A process that makes entries faster than they are copied ends the copy, not the other way round.
func TestDiskCopyEnds(t *testing.T) {
	onEveryDisk(t, func(t *testing.T, dir string) {
		deep := filepath.Join(dir, "entry")
		os.Mkdir(deep, 0o755)
		steps := 0
		grow := func(context.Context) error {
			if steps++; steps > 10_000 {
				return errors.New("without end")
			}
			return unix.Mkdir(filepath.Join(deep, fmt.Sprint("n", steps)), 0o755)
		}
		if _, _, err := copyAs(t, dir, dir, tree.CopyOptions{Pace: grow}); err != nil && !errors.Is(err, tree.ErrBusy) {
			t.Error(err)
		}
	})
}
