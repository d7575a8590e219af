package torture

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// privateDir is the agent's own directory in each pool; its layout is documented in
// docs/on-disk-format.md.
const privateDir = ".hostpath-provisioner"

// reserved are the names in a pool that are not volumes: the agent's directory, mkfs', the inner
// pool, and the campaign's file.
var reserved = []string{privateDir, "lost+found", "csi", foreign}

// writeFile writes a complete file into the directory, or none, and flushes it. The file's name is
// its checksum.
func writeFile(dir string, data []byte) (name string, err error) {
	sum := sha256.Sum256(data)
	name = hex.EncodeToString(sum[:])
	path := filepath.Join(dir, name)
	temporary := path + ".part"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) // the agent creates the directory
	if err != nil {
		return name, err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return name, errors.Join(err, os.Remove(temporary))
	}
	return name, flush(dir)
}

func flush(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func removeFile(dir, name string) error { return os.Remove(filepath.Join(dir, name)) }

// damaged returns an error for each of the claim's files that is missing or incomplete.
func damaged(cl *claim) (said []string) {
	if _, err := os.Lstat(cl.directory); err != nil {
		return []string{fmt.Sprintf("claim %s (policy %s, deleted: %t): its directory: %v", cl.name, cl.policy, cl.deleted,
			err)}
	}
	for _, name := range cl.files {
		data, err := os.ReadFile(filepath.Join(cl.directory, name))
		if sum := sha256.Sum256(data); err == nil && hex.EncodeToString(sum[:]) != name {
			err = fmt.Errorf("%d bytes with the checksum %x", len(data), sum)
		}
		if err != nil {
			said = append(said, fmt.Sprintf("claim %s: file %s in %s: %v", cl.name, name, cl.directory, err))
		}
	}
	return said
}

func fill(rng *rand.Rand, data []byte) {
	var word [8]byte
	for rest := data; len(rest) > 0; {
		binary.LittleEndian.PutUint64(word[:], rng.Uint64())
		rest = rest[copy(rest, word[:]):]
	}
}

// children lists the names in a directory except those given; a directory that does not exist has
// none.
func children(dir string, but ...string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(but, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
