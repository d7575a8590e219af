package poolmount

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

const recordName = ".hostpath-provisioner-mount"

// place is the directory of a pool, locked against other processes of this package.
type place struct {
	target *mount.Target
	above  *os.File
}

// openPlace opens and locks the place. It changes nothing. The error is mount.ErrParent if the
// directory above the pool's does not exist.
func openPlace(path string) (*place, error) {
	target, err := mount.OpenTarget(filepath.Dir(path), path)
	if err != nil {
		return nil, err
	}
	above, err := os.Open(filepath.Dir(path))
	if err != nil {
		target.Close()
		return nil, err
	}
	p := &place{target, above}
	if err := unix.Flock(int(above.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		p.close()
		return nil, fmt.Errorf("lock %s: another process mounts or unmounts %s now: %w", above.Name(), path, err)
	}
	return p, nil
}

func (p *place) close() {
	p.target.Close()
	p.above.Close()
}

// Owner is for whom a filesystem is mounted. Both fields are "" if an earlier version mounted it.
type Owner struct {
	// Pool is the name of the pool, and Claim the UID of the claim.
	Pool, Claim string
}

// record identifies a filesystem or a directory of one, until the machine restarts, and its owner.
type record struct {
	Boot         string
	Major, Minor uint32
	Root         string
	Owner
}

func recordOf(i mount.Info, o Owner) (record, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return record{strings.TrimSpace(string(boot)), i.Major, i.Minor, i.Root, o}, err
}

// read returns the record, the zero value if there is none.
func (p *place) read() (r record, err error) {
	text, err := file.Read(int(p.above.Fd()), recordName)
	if errors.Is(err, os.ErrNotExist) {
		return record{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", filepath.Join(p.above.Name(), recordName), err)
	}
	return r, err
}

// write replaces the record if it differs. One that cannot be read is replaced.
func (p *place) write(r record) error {
	if have, err := p.read(); err == nil && have == r {
		return nil
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = file.Replace(int(p.above.Fd()), []file.Content{{Name: recordName, Data: text}}, func(string) {})
	}
	if err != nil {
		err = fmt.Errorf("write %s: %w", filepath.Join(p.above.Name(), recordName), err)
	}
	return err
}
