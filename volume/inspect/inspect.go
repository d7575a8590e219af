//go:build linux

// Package inspect describes a pool for people and scripts. It reads the pool beside the
// process that owns it, and changes nothing.
package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
	"kubevirt.io/hostpath-provisioner/volume/trash"
	"kubevirt.io/hostpath-provisioner/volume/volumequota"
)

// Setting is what an agent knows of a pool besides its directory. The zero value of all but Path is
// that of an agent without settings.
type Setting struct {
	Name, Path string
	// Reserve are bytes that are never available, Overcommit is how many times the rest is; 0 is once.
	Reserve    int64
	Overcommit float64
}

// Read reads the pool at path without its lock. It knows no settings: Space is that of a pool alone
// on its filesystem, without reserve and overcommit.
func Read(path string) (Report, error) {
	reports, err := ReadAll([]Setting{{Path: path}}, nil)
	if err != nil {
		return Report{}, err
	}
	return reports[0], nil
}

// ReadAll reads the pools without their locks, and returns the reports of those that can be read.
// The pools beside share filesystems with them; of these only the space counts, and errors do not.
// Use is known only of volumes with a quota. A change during the call may be in a report or not.
//
// The error is ErrNotReady for each pool that is not there, or whose disk does not answer.
func ReadAll(pools, beside []Setting) ([]Report, error) {
	var found []*reading
	var errs []error
	for _, s := range pools {
		r, err := read(s)
		if errs = append(errs, err); err == nil {
			found = append(found, r)
		}
	}
	all := slices.Clone(found)
	for _, s := range beside {
		if r, err := read(s); err == nil {
			all = append(all, r)
		}
	}
	var reports []Report
	for _, r := range found {
		var others []*space.Ledger
		for _, other := range all {
			if other.Pool.ID != r.Pool.ID && other.filesystem == r.filesystem { // a pool may be named twice
				others = append(others, other.ledger)
			}
		}
		r.Space = r.ledger.Beside(&r.statfs, others)
		if r.Space.NoInodes {
			r.Warnings = append(r.Warnings, "the filesystem has no free inodes, so no volume can be created: remove files, "+
				"or move volumes to a filesystem with more inodes")
		}
		reports = append(reports, r.Report)
	}
	return reports, errors.Join(errs...)
}

// reading is a report whose space is not computed yet.
type reading struct {
	Report
	ledger     *space.Ledger
	statfs     unix.Statfs_t
	filesystem uint64 // the device number
}

func read(s Setting) (*reading, error) {
	const op = "inspect pool"
	s.Path = filepath.Join("/", s.Path)
	r := &reading{Report: Report{Version: Version}}
	err := bounded.Alone(op, s.Path, func(c *bounded.Call) error {
		d, err := pooldir.OpenToRead(s.Path)
		if err != nil {
			return err
		}
		defer d.Close()
		return r.fill(c, d, s)
	})
	if err != nil {
		return nil, fault.Failed(op, s.Path, err)
	}
	return r, nil
}

func (r *reading) fill(c *bounded.Call, d *pooldir.Dir, s Setting) error {
	r.Pool = Pool{Name: s.Name, Path: s.Path, ID: d.ID.ID, Created: d.ID.Created, Held: d.Held(), Holder: d.Holder(),
		Reserve: s.Reserve}
	all, err := record.Load(record.Dirs{Base: d.Base, Records: d.Records, Trash: d.Trash, Kept: d.Kept(),
		Progress: c.Progress})
	if err != nil {
		return err
	}
	records := record.NewStore(func(string) {})
	records.Reset(all)
	r.ledger = space.NewLedger(records, s.Reserve, cmp.Or(s.Overcommit, 1))
	enforcer, err := quota.Probe(d.Base, quota.Hooks{})
	if err != nil {
		return err
	}
	support := enforcer.Support()
	r.Pool.Quotas, r.Pool.NoQuotas = string(support.Method), support.Reason
	r.Volumes = volumes(c, d, enforcer, records, r.ledger)
	if err := r.locate(d); err != nil {
		return err
	}
	if r.Unrecorded, err = unrecorded(d, records); err != nil {
		return err
	}
	r.Damaged = records.Damaged()
	r.Warnings = pooldir.LooseMode(d.Base, s.Path)
	if err := label(d, &r.Report); err != nil {
		return err
	}
	if more := billed(c, d, support.Method, r.Volumes); more != "" {
		r.Warnings = append(r.Warnings, more)
	}
	if r.Trash, err = trashEntries(d); err != nil {
		return err
	}
	var frees int64
	r.Kept, frees, err = keptEntries(d, records)
	r.ledger.SetKept(frees)
	return err
}

func (r *reading) locate(d *pooldir.Dir) error {
	st, err := d.Statfs()
	if err != nil {
		return err
	}
	r.statfs = *st
	var at unix.Stat_t
	if err := unix.Fstat(d.Base, &at); err != nil {
		return fmt.Errorf("read the number of the filesystem: %w", err)
	}
	r.filesystem = at.Dev
	r.Pool.Filesystem = fmt.Sprintf("%d:%d", unix.Major(at.Dev), unix.Minor(at.Dev))
	return nil
}

func volumes(c *bounded.Call, d *pooldir.Dir, enforcer quota.Enforcer, records *record.Store,
	ledger *space.Ledger) []Volume {
	all := []Volume{}
	for _, r := range records.Sorted(func(record.Record) bool { return true }) {
		c.Progress()
		there, err := file.IsDir(d.Base, r.Name)
		u, none := volumequota.Usage(enforcer, d.Base, r)
		if none != nil {
			u = quota.Usage{}
		} else {
			ledger.Inspected(r.Name, u)
		}
		all = append(all, Volume{
			Name: r.Name, State: state(d, r, there), Bytes: r.Bytes, Owner: r.Owner, PV: r.PV, ReclaimPolicy: r.ReclaimPolicy,
			Missing: err == nil && !there, Adopted: r.Adopted, Ephemeral: r.Ephemeral, Created: r.Created,
			Migration: migration(r.Migration), Orphan: r.Orphan, Trash: r.Trash,
			Quota: u.Limit.Bytes, Used: u.Bytes,
		})
	}
	return all
}

// state returns the state that recovery would find: a volume in place is ready before its record.
func state(d *pooldir.Dir, r record.Record, there bool) record.State {
	if r.InTrash() {
		return record.Deleting
	}
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
		if known.Has(name) || fault.CheckName(name) != nil {
			continue
		}
		if pool, err := d.ContainsPool(name); pool && err == nil {
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
		// A change time is that of the rename into the trash, until the purge changes the directory.
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
	all := slices.AppendSeq([]TrashEntry{}, maps.Values(byID))
	slices.SortFunc(all, func(a, b TrashEntry) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
