package tree

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Empty reports whether a directory, open for reading, has no entries.
func Empty(dir int) (bool, error) {
	empty := true
	err := names(dir, func(string) bool {
		empty = false
		return false
	})
	return empty && err == nil, err
}

// names calls do for the entries of a directory as one read from its beginning returns them, until
// do returns false. Entries removed meanwhile may be among them; entries added may or may not.
func names(dir int, do func(name string) bool) error {
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for {
		batch, err := nextEntries(dir, buf)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, e := range batch {
			if !do(e.name) {
				return nil
			}
		}
	}
}

// An entry is one of a directory.
type entry struct {
	name string
	next int64 // where reading continues after it
}

// nextEntries returns the next entries of a directory, as many as fit buf; none at the end.
func nextEntries(dir int, buf []byte) ([]entry, error) {
	for {
		n, err := unix.ReadDirent(dir, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOENT: // the directory itself was removed
			return nil, nil
		case err != nil || n == 0:
			return nil, err
		}
		// "." and ".." are left out, so a batch may come out empty.
		if batch := parseEntries(buf[:n]); len(batch) > 0 {
			return batch, nil
		}
	}
}

// Offsets in struct linux_dirent64; see getdents64(2).
const (
	entryNext   = 8
	entryLength = 16
	entryName   = 19
)

func parseEntries(buf []byte) (batch []entry) {
	for len(buf) > entryName {
		length := int(binary.NativeEndian.Uint16(buf[entryLength:]))
		if length <= entryName || length > len(buf) {
			return batch // the kernel returns no such entry
		}
		name, _, _ := bytes.Cut(buf[entryName:length], []byte{0})
		if string(name) != "." && string(name) != ".." {
			batch = append(batch, entry{string(name), int64(binary.NativeEndian.Uint64(buf[entryNext:]))})
		}
		buf = buf[length:]
	}
	return batch
}
