package vm_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

const (
	rawBytes = 128 << 20
	sector   = 512
	// One partition, from the first MiB to the last.
	partFirst, partLast = 1 << 20 / sector, (rawBytes-1<<20)/sector - 1
)

// Real holders of disks and real partitions, which need modules that few machines have.
func TestDevices(t *testing.T) {
	t.Parallel()
	m := machine(t, "./volume/disk")
	m.Disks = []string{partitioned(t, dosTable), partitioned(t, gptTable), raw(t), raw(t)}
	m.Modules = []string{"dm_mod", "md_mod", "raid1", "virtio_scsi", "sd_mod"}
	lun := raw(t)
	m.SCSI = []vm.SCSIDisk{{Image: lun, WWN: 0x5000c500a0000009}, {Image: lun, WWN: 0x5000c500a0000009},
		{Image: raw(t), WWN: 0x5000c500a000000b}, {Image: raw(t), WWN: 0x5000c500a000000b}}
	m.Output = linesOf(t)
	run(t, m, "-test.run=^TestVM")
}

// raw makes an image of a blank disk.
func raw(t *testing.T) (image string) {
	t.Helper()
	image = filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, rawBytes)); err != nil {
		t.Fatal(err)
	}
	return image
}

// partitioned makes an image with a partition table and with an ext4 filesystem in its partition.
func partitioned(t *testing.T, table func(*os.File) error) (image string) {
	t.Helper()
	image = raw(t)
	out, err := exec.Command("mkfs.ext4", "-q", "-E", "offset=1048576", image, "126m").CombinedOutput()
	if err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(table(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	return image
}

// dosTable writes a DOS partition table.
func dosTable(f *os.File) error {
	_, err := f.WriteAt(mbr(0x83, partFirst, partLast), 0)
	return err
}

func mbr(kind byte, first, last uint32) []byte {
	b := make([]byte, sector)
	b[446+4] = kind
	binary.LittleEndian.PutUint32(b[446+8:], first)
	binary.LittleEndian.PutUint32(b[446+12:], last-first+1)
	b[510], b[511] = 0x55, 0xaa
	return b
}

// gptTable writes a GUID partition table with its backup, and the DOS table that protects it.
func gptTable(f *os.File) error {
	const sectors, entries, entryBytes = rawBytes / sector, 128, 128
	table := make([]byte, entries*entryBytes)
	copy(table, "\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4") // a Linux filesystem
	copy(table[16:], "an ID of its own")
	binary.LittleEndian.PutUint64(table[32:], partFirst)
	binary.LittleEndian.PutUint64(table[40:], partLast)
	header := func(self, other, table64 uint64, crc uint32) []byte {
		h := make([]byte, sector)
		copy(h, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
		for at, v := range map[int]uint64{24: self, 32: other, 40: 34, 48: sectors - 34, 72: table64} {
			binary.LittleEndian.PutUint64(h[at:], v)
		}
		copy(h[56:], "an ID of a disk.")
		for at, v := range map[int]uint32{80: entries, 84: entryBytes, 88: crc} {
			binary.LittleEndian.PutUint32(h[at:], v)
		}
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		return h
	}
	crc := crc32.ChecksumIEEE(table)
	var errs []error
	for at, data := range map[int64][]byte{
		0: mbr(0xee, 1, sectors-1), 1: header(1, sectors-1, 2, crc), 2: table,
		sectors - 33: table, sectors - 1: header(sectors-1, 1, sectors-33, crc),
	} {
		_, err := f.WriteAt(data, at*sector)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
