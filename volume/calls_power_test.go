//go:build power

package volume_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// keepsFor is for how long deleted volumes are kept: longer than any test runs.
const keepsFor = 24 * time.Hour

// A note is a call that is about to be made, or that has succeeded.
type note struct {
	Told  bool `json:",omitempty"`
	Do    string
	Name  string
	UID   string // of the claim; of the pool if it was started
	Bytes int64
	File  string // that is written, and a hash of what is in it
	Hash  string
	Why   string // of an orphan
	Mode  uint32
	Owner uint32
	Keep  bool              // the volume is to be kept once it is deleted
	From  string            // the volume that is copied
	Files map[string]string // which it has, as in directory
}

func (n note) String() string {
	text := n.Do + " " + n.Name
	for _, word := range []string{n.UID, n.File, n.Why, n.From} {
		if word != "" {
			text += " " + word
		}
	}
	if n.Bytes != 0 {
		text += fmt.Sprintf(" %d bytes", n.Bytes)
	}
	return text
}

// A caller makes calls of a pool and notes them, before and after.
type caller struct {
	*subject
	quota bool
	// unordered is set on a filesystem without a journal.
	unordered bool
	path      string
	pool      *volume.Pool
	account   *powerAccount
	serial    atomic.Int64

	life *life // of the process with the pool
	// killAt counts the steps that announce a flush, or what follows one, until the process is
	// killed; 0 is never.
	killAt int
}

// call makes a call. Its error is the pool's, and killed is set if the process with the pool died
// in it.
func (c *caller) call(n note) (killed bool, err error) {
	var data []byte
	if n.File != "" {
		for i := range 1 + (len(n.Name)*7919+int(n.File[len(n.File)-1])*4001)%900 {
			data = fmt.Appendf(data, "%s %s line %d\n", n.Name, n.File, i)
		}
		n.Hash = hashOf(data)
	}
	c.note(n)
	killed, err = c.life.live(func() error { return c.perform(n, data) })
	if !killed && err == nil {
		n.Told = true
		c.note(n)
	}
	return killed, err
}

func (c *caller) note(n note) {
	kind := byte(isAsk)
	if n.Told {
		kind = isTold
	}
	c.say(kind, noteMessage{n.Name, n.String(), &n})
	c.account.take(n)
}

func hashOf(data []byte) string { return fmt.Sprintf("%d:%x", len(data), sha256.Sum256(data))[:24] }

func (c *caller) perform(n note, data []byte) (err error) {
	dir := filepath.Join(c.path, n.Name)
	owner := record.Owner{Namespace: "default", Name: "data", UID: n.UID}
	s := volume.Spec{Name: n.Name, Bytes: n.Bytes, PV: "pv-" + n.UID, Cluster: "cluster-1", ReclaimPolicy: "Delete", Owner: owner,
		Mode: record.Mode(n.Mode), UID: n.Owner, GID: n.Owner}
	if n.Keep {
		s.TrashRetention = int64(keepsFor / time.Second)
	}
	switch n.Do {
	case "create":
		_, err = c.pool.Create(s)
	case "clone":
		_, err = awaited(c.pool, cloneFrom(c.pool, n.From, s))
	case "bind":
		_, err = c.pool.Bind(n.Name, volume.Binding{PV: s.PV, ReclaimPolicy: s.ReclaimPolicy, Owner: owner, UID: "uid-" + s.PV, Cluster: s.Cluster, Bound: true})
	case "expand":
		_, err = c.pool.Expand(n.Name, n.Bytes)
	case "orphan":
		_, err = c.pool.NoteOrphan(n.Name, n.Why, 0)
	case "delete":
		err = c.pool.Delete(n.Name)
	case "restore":
		err = c.pool.Restore(n.Name)
	case "undo":
		err = c.pool.RollBack(n.Name)
	case "adopt":
		_, err = c.pool.Adopt(s)
	case "undelete":
		err = c.undelete(n)
	case "drop":
		if id := c.keptAs(n); id != "" { // else an earlier try has dropped it
			err = c.pool.DropKept(id)
		}
	case "purge":
		_, err = c.pool.Purge(context.Background())
	case "write":
		err = writeFlushed(dir, n.File, data)
	case "mkdir":
		err = orErr(os.Mkdir(dir, os.FileMode(n.Mode)), func() error { return writeFlushed(dir, n.File, data) })
		err = orErr(err, func() error { return flushPath(c.path) })
	case "rmdir", "lose":
		err = orErr(os.RemoveAll(dir), func() error { return flushPath(c.path) })
	default:
		err = fmt.Errorf("no such call: %s", n.Do)
	}
	return err
}

// undelete brings a kept volume back, unless an earlier try has.
func (c *caller) undelete(n note) error {
	if v, err := c.pool.Get(n.Name); err == nil && v.Owner.UID == n.UID {
		return nil
	}
	id := c.keptAs(n)
	if id == "" {
		return fmt.Errorf("the volume of claim %s is neither kept nor in place", n.UID)
	}
	_, err := c.pool.Undelete(id)
	return err
}

// keptAs returns the ID under which the pool keeps the volume of a claim, "" if it does not.
func (c *caller) keptAs(n note) string {
	for _, k := range c.pool.Kept() {
		if k.Record.Name == n.Name && k.Record.Owner.UID == n.UID {
			return k.ID
		}
	}
	return ""
}

func writeFlushed(dir, name string, data []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return flushPath(dir)
}

func flushPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
