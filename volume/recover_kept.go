package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/trash"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// recoverKept reads what is kept, and finishes what a crash, or an older program, left of rows K1 to K3.
// It leaves alone what it cannot understand, and notes it. The volumes that are being deleted or brought
// back are recovered before.
func (p *Pool) recoverKept(c *call) error {
	p.room.Reset()
	dir := c.Kept()
	if dir < 0 {
		p.kept.Reset(nil)
		return nil
	}
	names, err := file.List(dir, ".")
	if err != nil {
		return err
	}
	slices.Sort(names)
	has, ids := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		has[name] = true
		id, _ := strings.CutSuffix(name, record.Suffix)
		ids[id] = true
	}
	// Those are being deleted or brought back.
	p.records.Each(func(r record.Record) {
		delete(ids, r.Trash)
		delete(ids, r.Returning)
	})
	saved := p.readKept(c)
	var all []Kept
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		c.Progress()
		k, err := p.recoverOneKept(c, id, has[id], has[id+record.Suffix])
		if err = c.Explain(err); errors.Is(err, ErrNotReady) || errors.Is(err, unix.EIO) {
			return err
		} else if err != nil {
			k = Kept{ID: id, Record: k.Record, Why: err.Error()}
			p.note(fmt.Sprintf("the deleted volume kept/%s is kept, and not offered: %v", id, err))
		}
		if k.ID == "" {
			continue
		}
		was := saved[id].Bounded()
		k.Age, k.Bytes, k.Since = time.Duration(was.Seconds)*time.Second, was.Bytes, was.Since
		if k.Since.IsZero() {
			k.Since = changed(dir, id)
		}
		all = append(all, k)
	}
	p.kept.Reset(all) // not before: other pools ask for the copies among them
	return nil
}

// recoverOneKept returns the volume if it is kept. With an error it stays as it is.
func (p *Pool) recoverOneKept(c *call, id string, entry, recorded bool) (k Kept, err error) {
	r, unread := trash.ReadWhole(c.Kept(), id)
	now, known := p.records.Get(r.Name)
	same := recorded && unread == nil && known && now.SameVolume(r)
	switch {
	case !entry && same: // K3
		return k, p.unkeep(c, id)
	case !entry && unread == nil && p.records.Damage(r.Name) != nil:
		return k, nil // it may be of help to a person who mends that
	case !entry: // K1
		return k, p.trash.Leave(c.Dir, id)
	case !recorded:
		// An older program has finished a deletion.
		if damaged := p.records.Damaged(); len(damaged) > 0 {
			return k, fmt.Errorf("it has no record, and may be the volume of one of %d that cannot be read (%s)", len(damaged),
				damaged[0])
		}
		return k, p.trash.Leave(c.Dir, id)
	case unread != nil:
		return k, unread
	}
	k.Record = r
	if err := p.records.Damage(r.Name); err != nil {
		return k, fmt.Errorf("the record of volume %s may be of this one: %w", r.Name, err)
	}
	if same {
		return k, p.bringBackKept(c, now, id)
	}
	k.ID = id
	return k, nil
}

// bringBackKept renames the directory of a volume that was being brought back into place. An older
// program has removed the name in its record.
func (p *Pool) bringBackKept(c *call, r record.Record, id string) error {
	if !r.InPlace() {
		return fmt.Errorf("%w: volume %s is this one, and is %s", ErrConflict, r.Name, r.State)
	}
	p.step("restore.rename")
	switch err := tree.Rename(c.Kept(), id, c.Base, r.Name); {
	case err == unix.EEXIST:
		return fmt.Errorf("%w: volume %s is this one: %w", ErrConflict, r.Name, errOccupied)
	case err != nil:
		return fault.Path("rename", id, err)
	}
	p.step("restore.sync")
	if err := file.Flush(c.Base, c.Kept()); err != nil {
		return err
	}
	return p.unkeep(c, id)
}

// changed returns when an entry was last renamed, in seconds of the node's clock.
func changed(dir int, name string) time.Time {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return now()
	}
	return time.Unix(st.Ctim.Unix()).UTC().Truncate(time.Second)
}

// keptEvery is how often the running time of kept volumes is written. What was not written is kept for so
// much longer.
const keptEvery = 10 * time.Minute

// readKept reads what a former process noted. A file that cannot be read is as none.
func (p *Pool) readKept(c *call) (all map[string]trash.Saved) {
	data, err := file.Read(c.Private, trash.SavedName)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		all = nil
		p.note(fmt.Sprintf("%s cannot be read, so deleted volumes are kept for longer: %v", trash.SavedName, err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keptSaved = p.config.Running()
	return all
}

// writeKept writes for how long volumes have been kept, every ten minutes.
func (p *Pool) writeKept(c *call) error {
	now := p.config.Running()
	p.mu.Lock()
	due := now-p.keptSaved >= keptEvery
	p.mu.Unlock()
	if !due || c.Kept() < 0 {
		return nil
	}
	data, err := file.JSON(p.kept.Saved())
	if err == nil {
		err = file.Replace(c.Private, []file.Content{{Name: trash.SavedName, Data: data}}, p.steps("kept"))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", trash.SavedName, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keptSaved = now
	return nil
}
