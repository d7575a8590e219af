package power

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk logs what the kernel writes and flushes, and has after a cut what was durable and kept.
func TestDisk(t *testing.T) {
	d, err := NewDisk(mib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	write(t, d, 0, 'k')
	d.Keep()
	d.Record()
	write(t, d, 0, 'a')
	write(t, d, 1, 'b')
	log := d.Stop()
	var kinds []byte
	for _, e := range log {
		kinds = append(kinds, byte(e.Kind))
	}
	if string(kinds) != "WFWF" {
		t.Fatalf("log %q, want a write and a flush, twice", kinds)
	}
	shows(t, d, "ab")
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{d.Rewind, "k\x00"},
		{func() error { d.Harden(log[:1]); return d.Cut(nil) }, "a\x00"},
		{func() error { return d.Cut(log[2:3]) }, "ab"},
		{func() error { return d.Cut(nil) }, "a\x00"},
		{d.Rewind, "k\x00"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		shows(t, d, step.want)
	}
}

// write fills a block with a byte, and flushes.
func write(t *testing.T, d *Disk, block int64, with byte) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte{with}, blockSize), block*blockSize); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fsync(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}

// shows checks the first byte of the first blocks.
func shows(t *testing.T, d *Disk, want string) {
	t.Helper()
	f, err := os.Open(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := range want {
		got := make([]byte, 1)
		if _, err := f.ReadAt(got, int64(block)*blockSize); err != nil || got[0] != want[block] {
			t.Errorf("block %d has %q, %v, want %q", block, got, err, want[block])
		}
	}
}
