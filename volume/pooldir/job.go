package pooldir

import (
	"context"
	"fmt"

	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// Job calls do with the open directory, for work that no caller waits for. Unlike a call it never makes
// the disk count as hanging, however long a system call takes. It holds none of the places of calls, so
// the caller bounds its jobs. The context of do ends when the pool is closed or reopened, which waits
// for do.
//
// The error is ErrNotReady if the pool is not open, or is about to be reopened: Job opens nothing.
func (o *Opener) Job(ctx context.Context, do func(context.Context, *Dir) error) error {
	if !o.door.TryEnter() {
		return fmt.Errorf("%w: it is being opened or closed", fault.ErrNotReady)
	}
	defer o.door.Leave()
	d := o.dir.Load()
	if d == nil || o.closed.Load() || d.live.Err() != nil {
		return fmt.Errorf("%w: it is not open", fault.ErrNotReady)
	}
	if err := d.verify(o.config.Path); err != nil {
		return asNotReady(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.live, cancel)()
	err := d.Explain(do(ctx, d))
	if err != nil && d.live.Err() != nil {
		return fmt.Errorf("%w: it was closed or has to be reopened", fault.ErrNotReady)
	}
	return err
}
