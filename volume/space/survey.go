//go:build linux

package space

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// survey is one measurement of the volumes of a pool, by a walk or by counters.
type survey struct {
	risen int64 // how far free space had risen when it began
	found map[string]int64
	of    map[string]record.Record
}

func newSurvey() survey { return survey{found: map[string]int64{}, of: map[string]record.Record{}} }

// Walk has the functions with which Measure reads the disk of a pool.
type Walk struct {
	Filesystem string
	Statfs     func() (*unix.Statfs_t, error)
	Size       func(ctx context.Context, volume string) (tree.Size, error)
	// Shared returns how many bytes of a volume its files share. It is nil if the counters of the
	// kernel count these once.
	Shared func(ctx context.Context, volume string) (int64, error)
}

// Measure walks what the kernel does not count, and what it counts more than once, and stores the
// result; see Pool.Measure.
func (f *Filesystems) Measure(ctx context.Context, l *Ledger, w Walk) error {
	// The second walk repeats the errors of the first.
	first, _ := l.walk(ctx, w, l.unknown())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.begun(first)
	st, err := w.Statfs()
	if err != nil {
		return err
	}
	risen := f.Risen(w.Filesystem, st)
	all, err := l.walk(ctx, w, l.uncounted())
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	all.risen = risen
	f.learn(w.Filesystem, l, all)
	return errors.Join(err, l.walkShared(ctx, w.Shared))
}

func (l *Ledger) walk(ctx context.Context, w Walk, volumes []record.Record) (survey, error) {
	all := newSurvey()
	var errs []error
	for _, r := range volumes {
		size, err := w.Size(ctx, r.Name)
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

// noteUse stores the use of a volume, unless the volume was deleted while it was measured.
func (l *Ledger) noteUse(r record.Record, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has(r) {
		l.used[r.Name] = bytes
	}
}

// uncounted returns the volumes in place whose use the kernel does not count.
func (l *Ledger) uncounted() []record.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.Sorted(func(r record.Record) bool {
		_, counted := l.metered[r.Name]
		return r.InPlace() && !counted
	})
}

// unknown returns those of uncounted that were never walked.
func (l *Ledger) unknown() []record.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.Sorted(func(r record.Record) bool {
		_, counted := l.metered[r.Name]
		_, walked := l.sure.last[r.Name]
		return r.InPlace() && !counted && !walked
	})
}
