package disk

import (
	"testing"
)

const testSize = 64 * mebibyte

// Signatures that other programs write at the beginning and the end of a device of 64 MiB.
func TestSignatures(t *testing.T) {
	mbr := make([]byte, 66)
	mbr[4], mbr[8], mbr[12], mbr[64], mbr[65] = 0x83, 1, 8, 0x55, 0xaa
	for name, row := range map[string]struct {
		offset int64
		bytes  string
		kind   Kind
	}{
		"blank":             {0, "", ""},
		"some data":         {123456, "x", ""}, // of the window; Signature calls it Unknown
		"LVM":               {512, "LABELONE" + string(make([]byte, 16)) + "LVM2 001", Member},
		"a label alone":     {512, "LABELONE", ""},
		"md 1.2":            {4096, "\xfc\x4e\x2b\xa9", Member},
		"md 1.1":            {0, "\xfc\x4e\x2b\xa9", Member},
		"md 1.0":            {testSize - 8<<10, "\xfc\x4e\x2b\xa9", Member},
		"md 0.90":           {testSize - 64<<10, "\xfc\x4e\x2b\xa9", Member},
		"md 0.90 elsewhere": {testSize - 64<<10, "\xa9\x2b\x4e\xfc", Member},
		"GPT":               {512, "EFI PART", PartitionTable},
		"GPT of 4096":       {4096, "EFI PART", PartitionTable},
		"GPT backup":        {testSize - 512, "EFI PART", PartitionTable},
		"DOS":               {446, string(mbr), PartitionTable},
		"DOS, no partition": {510, "\x55\xaa", ""},
		"ext4":              {1080, "\x53\xef", Filesystem},
		"xfs":               {0, "XFSB", Filesystem},
		"btrfs":             {65600, "_BHRfS_M", Filesystem},
		"ZFS":               {128<<10 + 3*1024, "\x0c\xb1\xba\x00\x00\x00\x00\x00", Member},
		"ZFS at the end":    {testSize - 128<<10, "\x0c\xb1\xba\x00\x00\x00\x00\x00", Member},
		"LUKS":              {0, "LUKS\xba\xbe", Member},
		"Ceph":              {0, "bluestore block device", Member},
		"swap":              {4086, "SWAPSPACE2", Filesystem},
		"FAT":               {82, "FAT32   ", Filesystem},
	} {
		device := make([]byte, testSize)
		copy(device[row.offset:], row.bytes)
		var got Signature
		for _, r := range around(testSize, probeBytes) {
			if s := (window{device[r.from:r.to], r.from, testSize}).signature(); s.Found() {
				got = s
				break
			}
		}
		if got.Kind != row.kind {
			t.Errorf("%s: found %s", name, got)
		}
		if got.Kind != "" && got.Name == "" {
			t.Errorf("%s: has no name", name)
		}
	}
}

// The bytes on a device are others': no probe reads beyond a window.
func FuzzSignature(f *testing.F) {
	f.Add([]byte("XFSB"), int64(0), int64(4))
	f.Add([]byte("EFI PART"), int64(512), int64(1024))
	f.Fuzz(func(t *testing.T, data []byte, from, size int64) {
		if s := (window{data, from, size}).signature(); s.Found() && s.Name == "" {
			t.Errorf("a %s without a name", s.Kind)
		}
	})
}
