//go:build disk

package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

func nothing(Progress) {}

// attach attaches a disk of that size and returns it as List finds it below a link.
func attach(t *testing.T, size int64) Device {
	t.Helper()
	path, _ := testdisk.Loop(t, size)
	return linked(t, path)
}

func linked(t *testing.T, path string) Device {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, "disk-1")); err != nil {
		t.Fatal(err)
	}
	devices, err := List(dir, regexp.MustCompile("^disk-"))
	if err != nil || len(devices) != 1 || devices[0].Err != nil {
		t.Fatalf("%+v, %v", devices, err)
	}
	return devices[0]
}

// write writes through the device, at each offset.
func write(t *testing.T, d Device, data string, offsets ...int64) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, offset := range offsets {
		if _, err := f.WriteAt([]byte(data), offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, d Device, offset int64, n int) string {
	t.Helper()
	f, err := os.Open(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, n)
	if _, err := f.ReadAt(data, offset); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func exclusively(t *testing.T, d Device) *Exclusive {
	t.Helper()
	x, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func TestDiskDevice(t *testing.T) {
	d := attach(t, 8*mebibyte)
	if d.Bytes != 8*mebibyte || d.Number.Major != 7 || d.ReadOnly || d.Removable || d.ID != "" {
		t.Errorf("%+v", d)
	}
	if n, err := Resolve(d.Path); err != nil || n != d.Number {
		t.Errorf("the link leads to %s (%v), want %s", n, err, d.Number)
	}
	path, _ := testdisk.Loop(t, mebibyte)
	readOnly := At(testdisk.LoopOn(t, path, "--read-only"))
	if !readOnly.ReadOnly {
		t.Errorf("%+v is not read-only", readOnly)
	}
	if _, err := Open(readOnly); err == nil {
		t.Error("a read-only device was opened to be wiped")
	}
}

// Every mode leaves nothing of a tenant at the places that it wipes.
func TestDiskWipe(t *testing.T) {
	const size = 260*mebibyte + 512*3
	tenant := []int64{0, 4096, 100*mebibyte - 6, 200 * mebibyte, size - mebibyte, size - 6}
	for mode, left := range map[Mode]int64{Zero: -1, Discard: -1, Quick: 200 * mebibyte} {
		t.Run(string(mode), func(t *testing.T) {
			d := attach(t, size)
			write(t, d, "secret", tenant...)
			x := exclusively(t, d)
			var last Progress
			if err := x.Wipe(t.Context(), mode, func(p Progress) {
				if p.Wiped < last.Wiped || p.Verified < last.Verified || p.Wiped > p.Total || p.Verified > p.Total {
					t.Errorf("progress %+v after %+v", p, last)
				}
				last = p
			}); err != nil {
				t.Fatal(err)
			}
			if want := total(mode.spans(size)); last != (Progress{want, want, want}) {
				t.Errorf("progress %+v, want %d bytes", last, want)
			}
			x.Close()
			for _, offset := range tenant {
				if got := read(t, d, offset, 6); (got == "secret") != (offset == left) {
					t.Errorf("at %d: %q", offset, got)
				}
			}
			if s, err := Probe(t.Context(), d, mode); err != nil || s.Found() {
				t.Errorf("found %s (%v) after the wipe", s, err)
			}
		})
	}
}

// The sizes of real disks: only what quick wipes takes space in the sparse file.
func TestDiskWipeOfTenTebibytes(t *testing.T) {
	const size = 10 << 40
	d := attach(t, size)
	inside := []int64{0, 100*mebibyte - 6, gibibyte, 10 * gibibyte, 100 * gibibyte, 1000 * gibibyte,
		1000*gibibyte + 100*mebibyte - 6, size - mebibyte, size - 6}
	outside := []int64{100 * mebibyte, gibibyte - 6, 1000*gibibyte + 100*mebibyte, size - mebibyte - 6}
	write(t, d, "secret", append(inside, outside...)...)
	x := exclusively(t, d)
	if err := x.Wipe(t.Context(), Quick, nothing); err != nil {
		t.Fatal(err)
	}
	x.Close()
	for _, offset := range inside {
		if got := read(t, d, offset, 6); got != "\x00\x00\x00\x00\x00\x00" {
			t.Errorf("at %d: %q", offset, got)
		}
	}
	for _, offset := range outside {
		if got := read(t, d, offset, 6); got != "secret" {
			t.Errorf("at %d: %q; quick does not wipe there", offset, got)
		}
	}
}

// A wipe of many hours ends at once, and the next one begins again.
func TestDiskWipeIsCancelled(t *testing.T) {
	d := attach(t, 10<<40)
	for _, mode := range []Mode{Discard, Zero} {
		x := exclusively(t, d)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the process ends")
		steps := 0
		var at time.Time
		err := x.Wipe(ctx, mode, func(Progress) {
			if steps++; steps == 3 {
				at = time.Now()
				cancel(why)
			}
		})
		if took := time.Since(at); !errors.Is(err, why) || took > time.Minute {
			t.Errorf("%s: ended with %v after %s", mode, err, took)
		}
		if steps != 3 {
			t.Errorf("%s: %d steps, want 3", mode, steps)
		}
		x.Close()
	}
}

// The disks of a large node are all probed and wiped at once: the memory for that does not grow
// with their number.
func TestDiskManyAtOnce(t *testing.T) {
	before := this.buffers
	this.buffers, idle.buffers = newPool(3), nil
	t.Cleanup(func() { this.buffers = before })
	var all sync.WaitGroup
	for range 24 {
		d := attach(t, 16*mebibyte)
		write(t, d, "secret", 15*mebibyte)
		all.Go(func() {
			if s, err := Probe(t.Context(), d, Zero); err != nil || !s.Found() {
				t.Errorf("found %s (%v)", s, err)
			}
			x, err := Open(d)
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			if err := x.Wipe(t.Context(), Zero, nothing); err != nil {
				t.Error(err)
			}
			if s, err := x.Remains(t.Context()); err != nil || s.Found() {
				t.Errorf("found %s (%v)", s, err)
			}
		})
	}
	all.Wait()
	// How many disks are read at one moment is the scheduler's: fewer than the bound may be.
	if made, kept := len(idle.buffers), len(this.buffers.turns); made == 0 || made > 3 || kept > 0 {
		t.Errorf("%d buffers were made and %d not given back, want 1 to 3 and 0", made, kept)
	}
}

// A disk that fails is an error, and never a wiped disk.
func TestDiskFailsDuringWipe(t *testing.T) {
	path, image := testdisk.Loop(t, 64*mebibyte)
	d := linked(t, path)
	write(t, d, "secret", 32*mebibyte)
	x := exclusively(t, d)
	err := x.Wipe(t.Context(), Zero, func(p Progress) {
		if p.Wiped == p.Total && p.Verified == 0 {
			if err := os.Truncate(image, 16*mebibyte); err != nil {
				t.Error(err)
			}
		}
	})
	if err == nil {
		t.Error("a wipe succeeded, and the disk had lost its end")
	}
}

// Every byte that is read back is compared.
func TestDiskWipeIsVerified(t *testing.T) {
	for _, mode := range []Mode{Zero, Discard} {
		path, image := testdisk.Loop(t, 64*mebibyte)
		d := linked(t, path)
		x := exclusively(t, d)
		late := false
		err := x.Wipe(t.Context(), mode, func(p Progress) {
			if p.Wiped == p.Total && !late {
				late = true
				corrupt(t, image, 63*mebibyte+17)
			}
		})
		var verify *VerifyError
		if mode == Zero && (!errors.As(err, &verify) || verify.Offset != 63*mebibyte) {
			t.Errorf("%s: %v, want a VerifyError", mode, err)
		}
		// What does not read as zeros after a discard is written over.
		if mode == Discard && (err != nil || read(t, d, 63*mebibyte+17, 1) != "\x00") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// corrupt changes a byte behind the device's back.
func corrupt(t *testing.T, image string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{1}, offset); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}
