package volume_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// An op is one call of a pool, or a change that another program makes to its disk.
type op struct {
	do    string
	name  string
	bytes int64
}

// nextUID is the UID of the claim that a volume is given to.
const nextUID = "uid-next"

func (o op) String() string { return fmt.Sprintf("%s %s %d", o.do, o.name, o.bytes) }

// call does it and returns the result of the caller.
func (o op) call(p *volume.Pool, limit record.QuotaPolicy) (answer string, err error) {
	var v volume.Volume
	dir := filepath.Join(p.Path(), o.name)
	s := spec(o.name, o.bytes)
	s.Quota = limit
	switch o.do {
	case "create", "create to keep":
		if o.do == "create to keep" {
			s.TrashRetention = keptSeconds
		}
		v, err = p.Create(s)
	case "clone": // of the volume v
		v, err = cloned(p, s)
	case "bind", "bind and purge":
		if _, err = p.Bind(o.name, binding(o.name)); err == nil && o.do != "bind" {
			_, err = p.Purge(context.Background())
		}
		if err == nil {
			v, err = p.Get(o.name)
		}
	case "record claim and purge":
		if _, err = p.RecordClaim(o.name, binding(o.name).PV, binding(o.name).Owner, describedClaim()); err == nil {
			_, err = p.Purge(context.Background())
		}
		return "", err
	case "reown":
		b := binding(o.name)
		b.Owner.UID = nextUID
		if err = p.Transfer(o.name, binding(o.name).Owner.UID, b); err == nil {
			v, err = p.Get(o.name)
		}
	case "expand":
		v, err = p.Expand(o.name, o.bytes)
	case "adopt":
		v, err = p.Adopt(s)
	case "undo":
		return "", p.RollBack(o.name)
	case "delete", "delete and purge":
		if err = p.Delete(o.name); err == nil && o.do != "delete" {
			_, err = p.Purge(context.Background())
		}
		return "", err
	case "note orphan":
		_, err := p.NoteOrphan(o.name, "its PV is gone", 0)
		return "", err
	case "note paths": // a call before this one wrote all of the note, or nothing
		if before, err := p.Paths(); err != nil || len(before) > 0 && !slices.Equal(before, notedPaths) {
			return "", fmt.Errorf("noted %q, %w", before, err)
		}
		return "", p.SetPaths(notedPaths)
	case "adopt to move":
		_, err := p.AdoptMigrating(s, journal)
		return "", done(err, volume.ErrConflict)
	case "begin migration":
		return "", done(beginAs(p, o.name, journal), volume.ErrMigrating)
	case "cut over":
		return "", p.AdvanceMigration(o.name, record.CutOver())
	case "finish migration":
		return "", done(p.AdvanceMigration(o.name, record.FinishMigration("uid", "")), volume.ErrConflict)
	case "cancel migration":
		// The record may have gone with its journal.
		return "", done(done(p.AdvanceMigration(o.name, record.CancelMigration()), volume.ErrConflict), volume.ErrNotFound)
	case "purge":
		more, err := p.Purge(context.Background())
		return fmt.Sprint("more: ", more), err
	case "open":
		return p.ID(), nil
	case "mkdir":
		return "", os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
	case "fill":
		deep := filepath.Join(dir, "a", "b")
		return "", orErr(os.MkdirAll(deep, 0o755), func() error { return os.WriteFile(filepath.Join(deep, "data"), []byte("x"), 0o600) })
	case "lose":
		return "", os.RemoveAll(dir)
	case "set aside": // as a deletion whose caller has left; the pool notices when it is opened
		r, _ := p.Cached(o.name)
		return "", os.Rename(dir, filepath.Join(p.Path(), trash, r.Trash))
	case "set aside to keep":
		r, _ := p.Cached(o.name)
		return "", os.Rename(dir, filepath.Join(p.Path(), keptDir, r.Trash))
	case "undelete":
		if id := keptID(p, o.name); id != "" {
			_, err = p.Undelete(id)
		}
		if err == nil {
			v, err = p.Get(o.name)
		}
	case "drop", "drop and purge":
		if id := keptID(p, o.name); id != "" {
			err = p.DropKept(id)
		}
		if err == nil && o.do != "drop" {
			_, err = p.Purge(context.Background())
		}
		return "", err
	case "restore":
		if err = p.Restore(o.name); err == nil {
			v, err = p.Get(o.name)
		}
	default:
		return "", fmt.Errorf("no such op: %v", o)
	}
	return fmt.Sprintf("%s, %d bytes, limited: %v, missing: %v", v.State, v.Bytes, v.QuotaEnforced, v.Missing), err
}

// keptSeconds is for how long volumes of "create to keep" are kept, in the pools of keeping.
const keptSeconds = 3600

// keeping returns the configuration with which classes may keep volumes, on a disk that needs no room.
func keeping(c volume.Config) volume.Config {
	c.TrashRetentionMax = keptSeconds * time.Second
	c.Figures = roomy
	return c
}

// roomy are the figures of an empty disk: the one that tests run on may have less than a tenth free, and
// kept volumes would go for it.
func roomy(st *unix.Statfs_t) { st.Bfree, st.Bavail, st.Ffree = st.Blocks, st.Blocks, st.Files }

// keptID returns the ID of a kept volume; "" if there is none of that name.
func keptID(p *volume.Pool, name string) string {
	for _, k := range p.Kept() {
		if k.Record.Name == name {
			return k.ID
		}
	}
	return ""
}

// describedClaim has the most that a record takes.
func describedClaim() *record.Claim {
	return record.Claim{Class: "fast", Labels: map[string]string{"app": strings.Repeat("x", record.MaxClaim-200)}}.Bounded()
}

// notedPaths is longer than what a write torn at a block leaves whole.
var notedPaths = []string{"/srv/" + strings.Repeat("a", 5000), "/srv/b"}

// done returns nil for the error of a call that was finished before the kill.
func done(err, already error) error {
	if errors.Is(err, already) {
		return nil
	}
	return err
}

func orErr(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// A truth is how a volume is, as far as callers depend on it. The zero value
// is of one that is not there.
type truth struct {
	Record, Dir, Bound, Adopted, Orphan, Given bool
	Claim                                      bool // the record has what PV and claim had
	Copy, Whole                                bool // a clone; with all that the source has
	Aside                                      bool // in the trash; comes back or goes
	Keeps, Kept                                bool // is to be kept once it is deleted; it is
	Bytes                                      int64
	Migration                                  record.MigrationStep
}

// after is what a success of the op makes of a volume.
func (o op) after(t truth) truth {
	switch o.do {
	case "create":
		if !t.Record {
			t = truth{Record: true, Bytes: o.bytes}
		}
		t.Dir = true
	case "create to keep":
		t = truth{Record: true, Dir: true, Keeps: true, Bytes: o.bytes}
	case "clone":
		t = truth{Record: true, Dir: true, Copy: true, Whole: true, Bytes: o.bytes}
	case "bind", "bind and purge":
		t.Bound, t.Orphan = true, false
	case "record claim and purge":
		t.Claim = true
	case "reown":
		t.Bound, t.Given, t.Orphan, t.Claim = true, true, false, false
	case "expand":
		t.Bytes = o.bytes
	case "adopt":
		t.Record, t.Bound, t.Adopted, t.Bytes = true, true, true, o.bytes
	case "mkdir":
		t.Dir = true
	case "lose":
		t.Dir, t.Whole = false, false
	case "set aside", "set aside to keep":
		t.Dir, t.Aside = false, true
	case "undelete":
		t.Record, t.Dir, t.Kept, t.Orphan = true, true, false, false
	case "restore":
		t.Dir, t.Aside = true, false
	case "note orphan":
		t.Orphan = true
	case "adopt to move":
		t.Record, t.Bound, t.Adopted, t.Bytes, t.Migration = true, true, true, o.bytes, record.MigrationPrepared
	case "begin migration":
		t.Bound, t.Migration = true, record.MigrationPrepared
	case "cut over":
		t.Migration = record.MigrationCutover
	case "finish migration":
		t.Migration = record.MigrationDone
	case "cancel migration":
		if t.Adopted {
			return truth{Dir: true}
		}
		t.Migration = ""
	case "delete":
		if t.Keeps && t.Bound {
			t.Record, t.Dir, t.Aside, t.Kept = false, false, false, true
			return t
		}
		return truth{}
	case "undo", "drop", "drop and purge":
		return truth{}
	}
	return t
}

// An account has the results that callers of a pool got, to compare them with the pool after
// a crash: a call that returned is done, and one that did not is done or not.
type account struct {
	mu   sync.Mutex
	may  map[string][]truth // how a volume may be; not here: not at all
	were map[string][]truth // before the call under way
}

func newAccount() *account { return &account{may: map[string][]truth{}, were: map[string][]truth{}} }

func (a *account) of(name string) []truth {
	if may := a.may[name]; may != nil {
		return may
	}
	return []truth{{}}
}

// asked notes a call that is about to be made.
func (a *account) asked(o op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.of(o.name)
	a.were[o.name] = before
	a.may[o.name] = append(slices.Clone(before), o.each(before)...)
	for _, t := range before {
		if o.do == "delete" && t.Dir || o.do == "restore" || o.do == "undelete" || o.do == "undo" && t.Copy {
			t.Dir, t.Aside, t.Whole = false, true, false
			a.may[o.name] = append(a.may[o.name], t)
		}
	}
	// A lost volume is created again, empty: no pod had used it.
	if (o.do == "create" || o.do == "clone") && slices.ContainsFunc(before, func(t truth) bool { return t.Record && !t.Dir }) {
		a.may[o.name] = append(a.may[o.name], truth{})
	}
}

// told notes how the call ended. One that failed changed nothing.
func (a *account) told(o op, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.may[o.name] = a.were[o.name]
	if err == nil {
		a.may[o.name] = o.each(a.were[o.name])
	}
	if o.do == "bind" { // the disk need not know it yet
		a.may[o.name] = append(a.may[o.name], a.were[o.name]...)
	}
}

// powerGoes notes that the power goes right after the call, before a purge. The disk need not know
// yet that a deletion was decided.
func (a *account) powerGoes(after op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.were[after.name] {
		switch {
		case after.do == "delete" && t.Record:
			t.Dir, t.Aside = false, true
		case after.do != "drop" || !t.Kept: // which the next purge flushes
			continue
		}
		a.may[after.name] = append(slices.Clone(a.may[after.name]), t)
	}
}

func (o op) each(before []truth) (after []truth) {
	for _, t := range before {
		after = append(after, o.after(t))
	}
	return after
}

func (a *account) clone() *account {
	b := newAccount()
	for name, may := range a.may {
		b.may[name] = may
	}
	for name, were := range a.were {
		b.were[name] = were
	}
	return b
}

// A breach is a state that must not be after a crash: a result is lost, something is left
// without an owner, or counts twice.
type breach struct{ kind, text string }

const (
	lost   = "lost"
	leaked = "leaked"
	double = "double"
)

// held compares the pool with the account.
func (a *account) held(p *volume.Pool) (faults []breach) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is, err := truths(p)
	if err != nil {
		return []breach{{lost, err.Error()}}
	}
	for name := range a.may {
		if _, there := is[name]; !there {
			is[name] = truth{}
		}
	}
	for name, t := range is {
		may := a.of(name)
		if slices.Contains(may, t) {
			continue
		}
		kind := lost
		if !slices.ContainsFunc(may, func(m truth) bool { return m.Record || m.Dir }) {
			kind = leaked
		}
		faults = append(faults, breach{kind, fmt.Sprintf("volume %s is %+v, and may be %+v", name, t, may)})
	}
	return faults
}

// truths reads from the disk how every volume is.
func truths(p *volume.Pool) (map[string]truth, error) {
	is := map[string]truth{}
	entries, err := os.ReadDir(p.Path())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != private {
			is[e.Name()] = truth{Dir: true}
		}
	}
	all, err := recorded(p)
	for _, r := range all {
		is[r.Name] = truthOf(p, r, is[r.Name].Dir)
	}
	kept, err2 := os.ReadDir(filepath.Join(p.Path(), keptDir))
	if errors.Is(err2, fs.ErrNotExist) {
		err2 = nil
	}
	for _, e := range kept {
		var r record.Record
		data, err := os.ReadFile(filepath.Join(p.Path(), keptDir, e.Name()+record.Suffix))
		if strings.HasSuffix(e.Name(), record.Suffix) || errors.Is(err, fs.ErrNotExist) {
			continue // set aside
		}
		if err := orErr(err, func() error { return json.Unmarshal(data, &r) }); err != nil {
			return nil, err
		}
		t := truthOf(p, r, false)
		t.Record, t.Aside, t.Kept = false, false, true
		is[r.Name] = t
	}
	return is, orErr(err, func() error { return err2 })
}

func truthOf(p *volume.Pool, r record.Record, dir bool) truth {
	t := truth{Record: true, Dir: dir, Keeps: r.TrashRetention > 0, Bound: r.State == record.Bound, Adopted: r.Adopted,
		Aside: there(filepath.Join(p.Path(), trash, cmp.Or(r.Returning, r.Trash))) ||
			there(filepath.Join(p.Path(), keptDir, cmp.Or(r.Returning, r.Trash))),
		Bytes: r.Bytes, Orphan: r.Orphan.Why != "", Given: r.Owner.UID == nextUID,
		Claim: r.Claim.Equal(describedClaim())}
	if r.Source != nil {
		data, _ := os.ReadFile(filepath.Join(p.Path(), r.Name, "a", "b", "data"))
		t.Copy, t.Whole = true, string(data) == "x"
	}
	if r.Migration != nil {
		t.Migration = r.Migration.Step
	}
	return t
}
