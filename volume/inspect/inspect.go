// Package inspect describes a pool for people and scripts. It reads the pool beside the
// process that owns it, and changes nothing.
package inspect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/enforce"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/trash"
)

// Read reads the pool at path without its lock. It knows no configuration: Space is
// that of a pool without reserve and overcommit, and use is known only of volumes with a
// quota. A change during the call may be in the report or not.
//
// The error is ErrNotReady if there is no pool, or its disk does not answer.
func Read(path string) (Report, error) {
	const op = "inspect pool"
	path = filepath.Join("/", path)
	var r Report
	err := bounded.Alone(op, path, func(c *bounded.Call) error {
		d, err := pooldir.OpenToRead(path)
		if err != nil {
			return err
		}
		defer d.Close()
		r, err = report(c, d, path)
		return err
	})
	if err != nil {
		return Report{}, fault.Failed(op, path, err)
	}
	return r, nil
}

func report(c *bounded.Call, d *pooldir.Dir, path string) (r Report, err error) {
	r.Pool = Pool{Path: path, ID: d.ID.ID, Created: d.ID.Created, Held: d.Held(), Holder: d.Holder()}
	all, err := record.Load(record.Dirs{Base: d.Base, Records: d.Records, Trash: d.Trash, Progress: c.Progress})
	if err != nil {
		return r, err
	}
	records := record.NewStore(func(string) {})
	records.Reset(all)
	ledger := space.NewLedger(records, 0, 1)
	enforcer, err := quota.Probe(d.Base, quota.Hooks{})
	if err != nil {
		return r, err
	}
	support := enforcer.Support()
	r.Pool.Quotas, r.Pool.NoQuotas = string(support.Method), support.Reason
	r.Volumes = volumes(c, d, enforcer, records, ledger)
	st, err := d.Statfs()
	if err != nil {
		return r, err
	}
	r.Space = ledger.Alone(st)
	if r.Unrecorded, err = unrecorded(d, records); err != nil {
		return r, err
	}
	r.Damaged = records.Damaged()
	r.Warnings = pooldir.LooseMode(d.Base, path)
	if r.Space.NoInodes {
		r.Warnings = append(r.Warnings, "the filesystem has no free inodes, so no volume can be created: remove files, or create it again with more inodes")
	}
	if err := label(d, &r); err != nil {
		return r, err
	}
	r.Trash, err = trashEntries(d)
	return r, err
}

// volumes describes all records, and counts in the ledger what the kernel counts.
func volumes(c *bounded.Call, d *pooldir.Dir, enforcer quota.Enforcer, records *record.Store, ledger *space.Ledger) []Volume {
	all := []Volume{}
	for _, r := range records.Sorted(func(record.Record) bool { return true }) {
		c.Progress()
		there, err := file.IsDir(d.Base, r.Name)
		u, none := enforce.Usage(enforcer, d.Base, r)
		if none != nil {
			u = quota.Usage{}
		} else {
			ledger.Inspected(r.Name, u)
		}
		all = append(all, Volume{
			Name: r.Name, State: state(d, r, there), Bytes: r.Bytes, Owner: r.Owner, PV: r.PV, ReclaimPolicy: r.ReclaimPolicy,
			Missing: err == nil && !there, Adopted: r.Adopted, Ephemeral: r.Ephemeral, Created: r.Created,
			Migration: migration(r.Migration), Orphan: r.Orphan,
			Quota: u.Limit.Bytes, Used: u.Bytes,
		})
	}
	return all
}

// state returns the state that recovery would find: a volume in place is ready before its
// record is written again.
func state(d *pooldir.Dir, r record.Record, there bool) record.State {
	if r.State != record.Creating || !there {
		return r.State
	}
	if staged, err := file.Exists(d.Staging, r.Name); staged || err != nil {
		return r.State
	}
	return record.Ready
}

func migration(m *record.Migration) *Migration {
	if m == nil {
		return nil
	}
	return &Migration{Step: m.Step, To: m.To, Stopped: m.Stopped, Began: m.Began, Changed: m.Changed}
}

// unrecorded lists the directories without a record. The process that owns the pool may
// make a volume meanwhile, so a directory counts only if it has no record afterwards.
func unrecorded(d *pooldir.Dir, known *record.Store) ([]Unrecorded, error) {
	names, err := d.Children()
	if err != nil {
		return nil, err
	}
	var all []Unrecorded
	for _, name := range names {
		if known.Has(name) || fault.CheckName(name) != nil || d.HoldsPool(name) {
			continue
		}
		is, err := file.IsDir(d.Base, name)
		if err != nil {
			return nil, fmt.Errorf("check a directory without a record: %w", err)
		}
		if _, err := record.Read(d.Records, name); is && err != nil {
			all = append(all, Unrecorded{Name: name})
		}
	}
	return all, nil
}

func trashEntries(d *pooldir.Dir) ([]TrashEntry, error) {
	names, err := file.List(d.Private, pooldir.TrashName)
	if err != nil {
		return nil, err
	}
	byID := map[string]TrashEntry{}
	for _, name := range names {
		var st unix.Stat_t
		if file.IsTemporary(name) || unix.Fstatat(d.Trash, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // being written, or purged meanwhile
		}
		id, isRecord := strings.CutSuffix(name, record.Suffix)
		t := byID[id]
		// A change time is that of the rename into the trash; the directory's own
		// only until the purge changes it.
		t.ID = id
		if isRecord {
			t.Since = time.Unix(st.Ctim.Unix()).UTC()
			if r, err := trash.ReadRecord(d, id); err == nil {
				t.Name, t.Bytes, t.Stuck = r.Name, r.Bytes, r.Stuck
			}
		} else if t.Since.IsZero() {
			t.Since = time.Unix(st.Ctim.Unix()).UTC()
		}
		byID[id] = t
	}
	all := make([]TrashEntry, 0, len(byID))
	for _, t := range byID {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b TrashEntry) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
