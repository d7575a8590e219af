package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

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
// until the next call, so callers run it from time to time. A volume that
// cannot be walked keeps what was known of it, and is in the joined errors.
func (p *Pool) Measure(ctx context.Context) error {
	const op = "measure volumes"
	err := p.long(ctx, op, func(ctx context.Context, h *handle) error {
		p.meter(h)
		pace := h.beating(measurePace())
		var errs []error
		for _, r := range p.settled() {
			if p.counted(r.Name) {
				continue
			}
			bytes, err := tree.Measure(ctx, h.base, r.Name, pace)
			switch {
			case ctx.Err() != nil:
				return errors.Join(append(errs, ctx.Err())...)
			case err == nil:
				p.learn(r, bytes)
			case !errors.Is(err, unix.ENOENT):
				errs = append(errs, fmt.Errorf("volume %s: %w", r.Name, err))
			}
		}
		return errors.Join(errs...)
	})
	return failed(op, p.path, err)
}

// learn notes the use of a volume, unless it went while it was measured.
func (p *Pool) learn(r Record, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, ok := p.records[r.Name]; ok && now.Created.Equal(r.Created) {
		p.used[r.Name] = bytes
	}
}

// counted reports whether the kernel says what the volume uses.
func (l *ledger) counted(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.metered[name]
	return ok
}

func measurePace() tree.Pace {
	files := 0
	return func(ctx context.Context) error {
		if files++; files%measureBatch != 0 {
			return nil
		}
		return sleep(ctx, measureRest)
	}
}
