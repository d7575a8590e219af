package disk

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume/diskid"
)

var every = regexp.MustCompile("")

// A path that is no block device is in the list with an error, and is not opened.
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
		attributes   map[string]string
		id, identity string
	}{
		"none": {nil, "", ""},
		"SCSI": {map[string]string{"device/wwid": "naa.5002538f\n"}, "naa.5002538f", "naa.5002538f"},
		"NVMe": {map[string]string{"wwid": "eui.0025385", "device/serial": "S4EV"}, "eui.0025385",
			"eui.0025385"},
		"padded": {map[string]string{"device/wwid": "t10.ATA  Disk   X1 \x00"}, "t10.ATA_Disk_X1",
			"t10.ATA_Disk_X1"},
		"SCSI, serial": {map[string]string{"device/vpd_pg80": "\x00\x80\x00\x08serial-3"}, "serial-3",
			"serial:serial-3"},
		"SCSI, padded":    {map[string]string{"device/vpd_pg80": "\x00\x80\x00\x0a  disk 4  "}, "disk_4", "serial:disk_4"},
		"SCSI, no serial": {map[string]string{"device/vpd_pg80": "\x00\x80\x00\x04    "}, "", ""},
		"SCSI, cut off":   {map[string]string{"device/vpd_pg80": "\x00\x80\x00"}, "", ""},
		"SCSI, both": {map[string]string{"device/vpd_pg80": "\x00\x80\x00\x08serial-3", "device/wwid": "naa.5"},
			"naa.5", "naa.5"},
		"virtio": {map[string]string{"serial": "data-1"}, "data-1", "serial:data-1"},
		"a slot of QEMU": {map[string]string{"device/wwid": "t10.QEMU QEMU HARDDISK drive-scsi0-0-1"},
			"t10.QEMU_QEMU_HARDDISK_drive-scsi0-0-1", ""},
		"zeros":              {map[string]string{"serial": "00000000"}, "00000000", ""},
		"zeros with a kind":  {map[string]string{"wwid": "eui.0000000000000000"}, "eui.0000000000000000", ""},
		"a logical volume":   {map[string]string{"dm/uuid": "LVM-abc"}, "LVM-abc", "dm:LVM-abc"},
		"a software RAID":    {map[string]string{"md/uuid": "1:2:3:4"}, "1:2:3:4", "md:1:2:3:4"},
		"a disk of zeros, X": {map[string]string{"serial": "0000X"}, "0000X", "serial:0000X"},
	} {
		dir := t.TempDir()
		writeAttributes(t, dir, row.attributes)
		id, kind := identityIn(dir)
		if got := diskid.Parse(kind + id).String(); id != row.id || got != row.identity {
			t.Errorf("%s: ID %q, identity %q, want %q and %q", name, id, got, row.id, row.identity)
		}
	}
	if got := ofPartition("naa.5", 2); got != "naa.5-part2" {
		t.Errorf("a partition has the ID %q", got)
	}
}

func writeAttributes(t *testing.T, dir string, attributes map[string]string) {
	t.Helper()
	for name, value := range attributes {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(value), 0o600)); err != nil {
			t.Fatal(err)
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
		"two and the end": {2 * gibibyte, []span{{0, 100 * m}, {gibibyte, gibibyte + 100*m},
			{2*gibibyte - m, 2 * gibibyte}}},
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
			if s.from%sampleBytes != 0 || s.to <= s.from || s.to > size || i > 0 &&
				s.from-all[i-1].from > size/samples+sampleBytes {
				t.Errorf("of %d bytes: %v after %v", size, s, all[max(0, i-1)])
			}
		}
		if last := all[len(all)-1]; size-last.from > size/samples+samples+sampleBytes {
			t.Errorf("of %d bytes: the last is %v", size, last)
		}
	}
}
