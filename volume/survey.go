package volume

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// survey is one measurement of the volumes of a pool, by a walk or by counters.
type survey struct {
	risen int64 // how far free space had risen when it began
	found map[string]int64
	of    map[string]Record
}

func newSurvey() survey { return survey{found: map[string]int64{}, of: map[string]Record{}} }

// walk is how a caller of measure reads the disk of a pool.
type walk struct {
	filesystem string
	statfs     func() (*unix.Statfs_t, error)
	size       func(ctx context.Context, volume string) (tree.Size, error)
}

// measure walks the volumes whose use the kernel does not count; see Pool.Measure.
func (f *family) measure(ctx context.Context, l *ledger, w walk) error {
	// Errors of the first walk are those of the second.
	first, _ := l.walk(ctx, w, l.unknown())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.begun(first)
	st, err := w.statfs()
	if err != nil {
		return err
	}
	risen := f.risen(w.filesystem, st)
	all, err := l.walk(ctx, w, l.uncounted())
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	all.risen = risen
	f.learn(w.filesystem, l, all)
	return err
}

// walk measures volumes. Those that it could not are in the joined errors.
func (l *ledger) walk(ctx context.Context, w walk, volumes []Record) (survey, error) {
	all := newSurvey()
	var errs []error
	for _, r := range volumes {
		size, err := w.size(ctx, r.Name)
		switch {
		case ctx.Err() != nil:
			return all, errors.Join(errs...)
		case err == nil:
			all.found[r.Name], all.of[r.Name] = size.Own, r
			l.noteUse(r, size.Bytes)
		case !errors.Is(err, unix.ENOENT):
			errs = append(errs, fmt.Errorf("volume %s: %w", r.Name, err))
		}
	}
	return all, errors.Join(errs...)
}

// noteUse notes the use of a volume, unless it went while it was measured.
func (l *ledger) noteUse(r Record, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(r) {
		l.used[r.Name] = bytes
	}
}

// uncounted returns the volumes in place whose use the kernel does not count;
// unknown those of them that were never walked.
func (l *ledger) uncounted() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.Sorted(func(r Record) bool {
		_, counted := l.metered[r.Name]
		return r.InPlace() && !counted
	})
}

func (l *ledger) unknown() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.Sorted(func(r Record) bool {
		_, counted := l.metered[r.Name]
		_, walked := l.sure.last[r.Name]
		return r.InPlace() && !counted && !walked
	})
}
