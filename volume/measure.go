package volume

import (
	"context"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/space"
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
		f := p.filesystems.Load()
		p.meter(h)
		pace, elsewhere := h.call.Paced(measurePace()), h.quotas.CountedElsewhere()
		return f.Measure(ctx, p.ledger, space.Walk{
			Filesystem: h.Filesystem, Statfs: h.Statfs,
			Size: func(ctx context.Context, name string) (tree.Size, error) {
				return tree.Measure(ctx, h.Base, name, pace, elsewhere)
			},
		})
	})
	return fault.Failed(op, p.path, err)
}

// MeasureDue reports whether free space has risen so much since the last Measure that
// the pool may have more space available than it can be sure of. It reads nothing.
func (p *Pool) MeasureDue() bool { return p.filesystems.Load().MeasureDue(p.ledger) }

func measurePace() tree.Pace {
	files := 0
	return func(ctx context.Context) error {
		if files++; files%measureBatch != 0 {
			return nil
		}
		return bounded.Sleep(ctx, measureRest)
	}
}
