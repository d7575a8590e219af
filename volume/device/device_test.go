package device

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var every = regexp.MustCompile("")

// What is no block device is in the list with an error, and is not opened.
func TestListOfOtherFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sub", "file")
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.WriteFile(file, []byte("data"), 0o600),
		os.Symlink(file, filepath.Join(dir, "link")), os.Symlink("nowhere", filepath.Join(dir, "dangling")),
		os.Symlink(dir, filepath.Join(dir, "loop")), os.Symlink("/dev/null", filepath.Join(dir, "character")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	devices, err := List(dir, every)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range devices {
		names = append(names, filepath.Base(d.Path))
		if d.Err == nil || d.Path != filepath.Join(dir, "dangling") && !errors.Is(d.Err, ErrNotADevice) {
			t.Errorf("%s: error %v", d.Path, d.Err)
		}
		if _, err := Open(d); err == nil {
			t.Errorf("%s was opened", d.Path)
		}
	}
	if want := []string{"character", "dangling", "link", "loop", "file"}; !slices.Equal(names, want) {
		t.Errorf("listed %q, want %q", names, want)
	}
	if _, err := List(file, every); err == nil {
		t.Error("a file was listed as a directory")
	}
	if _, err := List(filepath.Join(dir, "absent"), every); err == nil {
		t.Error("an absent directory was listed")
	}
}

func TestIdentity(t *testing.T) {
	for name, row := range map[string]struct {
		attributes map[string]string
		part       int
		want       string
	}{
		"none":      {nil, 0, ""},
		"SCSI":      {map[string]string{"device/wwid": "naa.5002538f\n"}, 0, "naa.5002538f"},
		"NVMe":      {map[string]string{"wwid": "eui.0025385", "device/serial": "S4EV"}, 0, "eui.0025385"},
		"padded":    {map[string]string{"device/wwid": "t10.ATA  Disk   X1 \x00"}, 0, "t10.ATA_Disk_X1"},
		"virtio":    {map[string]string{"serial": "data-1"}, 0, "data-1"},
		"partition": {map[string]string{"serial": "data-1"}, 2, "data-1-part2"},
	} {
		dir := t.TempDir()
		for name, value := range row.attributes {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(value), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got := identityIn(dir, row.part); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// Quick wipes the metadata and the end, whatever the size, and no byte twice.
func TestSpans(t *testing.T) {
	m := mebibyte
	for name, row := range map[string]struct {
		size int64
		want []span
	}{
		"a sector":           {512, []span{{0, 512}}},
		"ends in the first":  {100*m + 512, []span{{0, 100*m + 512}}},
		"small":              {500 * m, []span{{0, 100 * m}, {499 * m, 500 * m}}},
		"ends in the second": {gibibyte + 4096, []span{{0, 100 * m}, {gibibyte + 4096 - m, gibibyte + 4096}}},
		"two and the end":    {2 * gibibyte, []span{{0, 100 * m}, {gibibyte, gibibyte + 100*m}, {2*gibibyte - m, 2 * gibibyte}}},
	} {
		if got := Quick.spans(row.size); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
	if got, want := total(Quick.spans(10<<40)), 501*m; got != want {
		t.Errorf("10 TiB: %d bytes, want %d", got, want)
	}
	for _, mode := range []Mode{Zero, Discard} {
		if got := mode.spans(12345); !slices.Equal(got, []span{{0, 12345}}) {
			t.Errorf("%s: %v", mode, got)
		}
	}
	if _, err := ParseMode("shred"); err == nil {
		t.Error("an unknown mode was accepted")
	}
}

// Samples are spread over the whole device, are whole blocks, and end with it.
func TestSampled(t *testing.T) {
	for _, size := range []int64{512, 8*mebibyte + 512, 10<<40 + 1536} {
		all := Zero.sampled(size)
		for i, s := range all {
			if s.from%sampleBytes != 0 || s.to <= s.from || s.to > size || i > 0 && s.from-all[i-1].from > size/samples+sampleBytes {
				t.Errorf("of %d bytes: %v after %v", size, s, all[max(0, i-1)])
			}
		}
		if last := all[len(all)-1]; size-last.from > size/samples+samples+sampleBytes {
			t.Errorf("of %d bytes: the last is %v", size, last)
		}
	}
}
