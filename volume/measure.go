package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/quota"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// Measuring rests this long after so many files, so that it takes a fraction
// of one core and leaves the disk to the tenants.
const (
	measureRest  = time.Millisecond
	measureBatch = 256
)

// Measure walks every volume without a limit to learn how much of its promise it uses, for
// Space. It may take long; ctx stops it. What was learned of a volume holds
// until the next call, so callers run it from time to time. The lesser of two walks
// counts for Space: a volume that was never walked is walked twice, and what is new in
// any other counts from the second call on. A volume that
// cannot be walked counts nothing, and is in the joined errors. Where ctx ends, all is
// as before.
func (p *Pool) Measure(ctx context.Context) error {
	const op = "measure volumes"
	err := p.long(ctx, op, func(ctx context.Context, h *handle) error {
		p.meter(h)
		// Errors of the first walk are those of the second.
		first, _ := p.walk(ctx, h, p.ledger.unknown())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.ledger.begun(first)
		risen, err := p.risen(h)
		if err != nil {
			return err
		}
		all, err := p.walk(ctx, h, p.ledger.uncounted())
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		all.risen = risen
		p.family.Load().learn(h.Filesystem, p, all)
		return err
	})
	return fault.Failed(op, p.path, err)
}

// walk measures volumes. Those that it could not are in the joined errors.
func (p *Pool) walk(ctx context.Context, h *handle, volumes []Record) (survey, error) {
	all := survey{found: map[string]int64{}, of: map[string]Record{}}
	pace := h.call.Paced(measurePace())
	var errs []error
	for _, r := range volumes {
		size, err := tree.Measure(ctx, h.Base, r.Name, pace, p.elsewhere(h))
		switch {
		case ctx.Err() != nil:
			return all, errors.Join(errs...)
		case err == nil:
			all.found[r.Name], all.of[r.Name] = size.Own, r
			p.ledger.noteUse(r, size.Bytes)
		case !errors.Is(err, unix.ENOENT):
			errs = append(errs, fmt.Errorf("volume %s: %w", r.Name, err))
		}
	}
	return all, errors.Join(errs...)
}

// elsewhere returns what reports of a file that it has the limit ID of a recorded
// volume, and so is counted there; nil where there are no such IDs.
func (p *Pool) elsewhere(h *handle) func(fd int) bool {
	if m := h.support.Method; m != quota.MethodXFS && m != quota.MethodExt4 {
		return nil
	}
	f := p.family.Load()
	return func(fd int) bool {
		a, err := quota.GetAttr(fd)
		return err != nil || a.Project != 0 && f.recorded(p, h.Filesystem, uint64(a.Project)) > 0
	}
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

func measurePace() tree.Pace {
	files := 0
	return func(ctx context.Context) error {
		if files++; files%measureBatch != 0 {
			return nil
		}
		return bounded.Sleep(ctx, measureRest)
	}
}
