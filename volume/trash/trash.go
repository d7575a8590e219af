package trash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Trash empties the trash of a pool, to which deleted volumes are moved.
type Trash struct {
	rate int // files a second; 0 is no bound
	step func(name string)
	one  bounded.Turns // one emptying at a time

	mu   sync.Mutex
	left Left // by the last emptying; guarded by mu
}

// New returns what empties a trash at so many files a second; 0 is no
// bound. step is called before every change to the disk, with its name.
func New(rate int, step func(name string)) *Trash {
	return &Trash{rate: rate, step: step, one: bounded.OneAtATime()}
}

const (
	// purgeTurn is how many changes an entry may take in its turn: a volume of millions of files, or
	// whose tenant still writes, must not keep the space of all others.
	purgeTurn = 10000
	// purgeTurns bounds the turns of a call in all, so that its caller learns of
	// a trash that does not end, and of entries that cannot be removed.
	purgeTurns = 100
)

var errTurn = fmt.Errorf("gave up after %d attempts", purgeTurn)

// Disk is what the filesystem of the pool can do for its trash.
type Disk interface {
	// RemoveWhole removes an entry in one step if the filesystem can; the kernel frees the space.
	RemoveWhole(id string) (removed bool, err error)
	// ClearQuotas removes the quotas that belong to no directory any more.
	ClearQuotas() error
}

// Emptying is one call that empties the trash, in rounds.
type Emptying struct {
	trash *Trash
	call  *bounded.Call
	dir   *pooldir.Dir
	disk  Disk
	pace  tree.Pace
	turns int
	stuck map[string]error
	// undecided are entries that may be of a volume whose deletion is not decided: of this round.
	undecided map[string]error
}

// Begin begins to empty the trash in a directory. It waits while another
// Emptying is under way; the caller calls end when it is done.
func (t *Trash) Begin(c *bounded.Call, d *pooldir.Dir, disk Disk) (e *Emptying, end func(), err error) {
	give, err := t.one.Take(c)
	if err != nil {
		return nil, nil, err
	}
	return &Emptying{trash: t, call: c, dir: d, disk: disk, pace: t.removalPace(), stuck: map[string]error{}}, give, nil
}

// Names returns the names in the trash, those of entries and of their records, sorted.
func (e *Emptying) Names() ([]string, error) {
	names, err := file.List(e.dir.Private, pooldir.TrashName)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	entries := map[string]bool{}
	for _, name := range names {
		if id, _ := strings.CutSuffix(name, record.Suffix); !file.IsTemporary(name) {
			entries[id] = true
		}
	}
	e.trash.mu.Lock()
	defer e.trash.mu.Unlock()
	e.trash.left.Entries = len(entries)
	return names, nil
}

// Removable returns the names in the trash but those of entries that cannot be removed.
func (e *Emptying) Removable() ([]string, error) {
	names, err := e.Names()
	return slices.DeleteFunc(names, func(name string) bool { return e.stuck[name] != nil }), err
}

// Round gives every entry among the names one turn, except those that are still being moved to the
// trash, and those that are undecided, with the reason. It reports whether entries were cut short
// and another round is due. If a turn cannot remove anything of an entry, that entry is stuck and
// gets no further turn.
func (e *Emptying) Round(ctx context.Context, names []string, moving map[string]bool,
	undecided map[string]error,
) (again bool, err error) {
	e.undecided = undecided
	if len(names) == 0 {
		return false, errors.Join(e.reportStuck(), e.disk.ClearQuotas())
	}
	// An entry goes only once its record is in the trash for good. A power cut could bring the
	// record back otherwise, and a start would take for the volume whatever has its name by then.
	e.trash.step("purge.flush")
	// The same holds for an entry that was kept: what is kept is always whole.
	dirs := []int{e.dir.Records, e.dir.Trash}
	if kept := e.dir.Kept(); kept >= 0 {
		dirs = append(dirs, kept)
	}
	if err := file.Flush(dirs...); err != nil {
		return false, err
	}
	before := e.turns
	for _, name := range names {
		if strings.HasSuffix(name, record.Suffix) || moving[name] || undecided[name] != nil || e.stuck[name] != nil {
			continue // a record goes with its entry, or below
		}
		err := e.removeEntry(ctx, name, e.call.Paced(turn(e.pace)))
		switch {
		case ctx.Err() != nil || e.dir.Writable() != nil:
			return false, err
		case err == errTurn: // and with other errors where nothing was removed
			e.turns++
		case err != nil:
			e.stuck[name] = err
		}
	}
	again = e.turns > before && e.turns < purgeTurns
	return again, errors.Join(e.removeRecords(names, moving), e.reportStuck(), e.disk.ClearQuotas())
}

// turn is the pace until the turn is over.
func turn(pace tree.Pace) tree.Pace {
	left := purgeTurn
	return func(ctx context.Context) error {
		if left--; left < 0 {
			return errTurn
		}
		return pace(ctx)
	}
}

// removeEntry removes a directory of the trash, and then its record.
func (e *Emptying) removeEntry(ctx context.Context, id string, pace tree.Pace) error {
	if err := e.dir.CheckNoMounts(pooldir.PrivateName + "/" + pooldir.TrashName + "/" + id); err != nil {
		return err
	}
	if err := pace(ctx); err != nil {
		return err
	}
	removed, err := e.disk.RemoveWhole(id)
	if err == nil && !removed {
		err = tree.Remove(ctx, e.dir.Trash, id, pace)
	}
	if err != nil {
		return err
	}
	e.trash.step("purge.record")
	return file.Remove(e.dir.Trash, id+record.Suffix)
}

// removeRecords removes the records whose entries were gone before, except those that are
// still being moved to the trash.
func (e *Emptying) removeRecords(names []string, moving map[string]bool) error {
	var errs []error
	for _, name := range names {
		id, ok := strings.CutSuffix(name, record.Suffix)
		if !ok || moving[id] {
			continue
		}
		there, err := file.Exists(e.dir.Trash, id)
		if !there && err == nil {
			if there, err = file.Exists(e.dir.Trash, name); there {
				e.trash.step("purge.record")
				err = file.Remove(e.dir.Trash, name)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Move renames a volume's directory into another one, that of the trash or of the kept volumes, where
// it is the entry id. The caller flushes both directories. The error is ErrInUse where something is
// mounted on the directory.
func (t *Trash) Move(d *pooldir.Dir, name string, to int, id string) error {
	move := func() error {
		return tree.Rename(d.Base, name, to, id)
	}
	err := move()
	if err == unix.EPERM || err == unix.EROFS {
		t.step("delete.unlock")
		if tree.Unlock(d.Base, name) {
			t.step("delete.again")
			err = move()
		}
	}
	if err == unix.EBUSY {
		return fmt.Errorf("%w: something is mounted on it", fault.ErrInUse)
	}
	return fault.Path("rename", name, err)
}

// purgeSlack is how far a purge runs ahead before it waits: timers are too coarse for each file.
const purgeSlack = 5 * time.Millisecond

// removalPace waits so that the rate is not exceeded, and announces the removal.
func (t *Trash) removalPace() tree.Pace {
	var next time.Time
	return func(ctx context.Context) error {
		if t.rate > 0 {
			now := time.Now()
			if next.Before(now) {
				next = now
			}
			if wait := next.Sub(now); wait >= purgeSlack {
				if err := bounded.Sleep(ctx, wait); err != nil {
					return err
				}
			}
			next = next.Add(time.Second / time.Duration(t.rate))
		}
		t.step("purge.remove")
		return nil
	}
}
