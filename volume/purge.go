package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/file"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

const (
	// purgeTurn is how many changes a trash entry may take until the next one
	// has its turn: a volume of millions of files, or one whose tenant keeps
	// writing into it, must not keep the space of all others.
	purgeTurn = 10000
	// purgeTurns bounds the turns of a call in all, so that somebody hears of a
	// trash that does not end, and of entries that cannot be removed.
	purgeTurns = 100
)

// errTurn ends an entry's turn.
var errTurn = fmt.Errorf("gave up after %d attempts", purgeTurn)

// Purge empties the trash at Config.PurgeRate, its entries in turns. It returns
// whether something is left: what could not be removed, for which the joined
// errors say why, or what is still to be removed, for which the caller calls
// again. It may take long; ctx stops it between two files, and the next call
// goes on. Calls wait for each other.
//
// Nothing outside the trash is touched: a mount found there stays, with the
// directories above it, and is reported.
func (p *Pool) Purge(ctx context.Context) (more bool, err error) {
	const op = "purge pool"
	left := 0
	err = p.long(ctx, op, func(ctx context.Context, h *handle) error {
		give, err := p.purging.Take(h.call)
		if err != nil {
			return err
		}
		defer give()
		errs := p.purge(ctx, h)
		names, err := file.List(h.Private, pooldir.TrashName)
		left = len(names)
		return errors.Join(errs, err)
	})
	return err != nil || left > 0, fault.Failed(op, p.path, err)
}

func (p *Pool) purge(ctx context.Context, h *handle) error {
	pace, stuck := p.purgePace(), map[string]error{}
	for turns := 0; ; {
		cut, err := p.purgeOnce(ctx, h, pace, stuck)
		if turns += cut; cut == 0 || ctx.Err() != nil || turns >= purgeTurns {
			return err
		}
	}
}

// purgeOnce gives every entry of the trash one turn, and counts those that were
// cut short. An entry of which a turn could remove nothing more is stuck, and has
// no other turn.
func (p *Pool) purgeOnce(ctx context.Context, h *handle, pace tree.Pace, stuck map[string]error) (cut int, err error) {
	names, err := file.List(h.Private, pooldir.TrashName)
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	errs := []error{p.settleLate(ctx, h)}
	if len(names) == 0 {
		return 0, errors.Join(append(errs, p.reportStuck(h, stuck), p.sweepLimits(h))...)
	}
	// An entry goes only once its record is in the trash for good. A power cut
	// could bring the record back otherwise, and a start would take for the
	// volume whatever has its name by then.
	moving, err := p.settleTrash(h, names)
	errs = append(errs, err)
	p.step("purge.flush")
	if err := file.Flush(h.Records, h.Trash); err != nil {
		return 0, errors.Join(append(errs, err)...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, record.Suffix) || moving[name] || stuck[name] != nil {
			continue // a record goes with its entry, or below
		}
		err := p.purgeEntry(ctx, h, name, h.beating(turn(pace)))
		switch {
		case ctx.Err() != nil || h.Writable() != nil:
			return cut, errors.Join(append(errs, err)...)
		case err == errTurn: // and with other errors where nothing was removed
			cut++
		case err != nil:
			stuck[name] = err
		}
	}
	return cut, errors.Join(append(errs, p.purgeRecords(h, names), p.reportStuck(h, stuck), p.sweepLimits(h))...)
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

// purgeEntry removes a directory of the trash, and then its record.
func (p *Pool) purgeEntry(ctx context.Context, h *handle, id string, pace tree.Pace) error {
	if err := h.CheckNoMounts(pooldir.PrivateName + "/" + pooldir.TrashName + "/" + id); err != nil {
		return err
	}
	if err := pace(ctx); err != nil {
		return err
	}
	removed, err := h.removeWhole(id)
	if err == nil && !removed {
		err = tree.Remove(ctx, h.Trash, id, pace)
	}
	if err != nil {
		return err
	}
	p.step("purge.record")
	return file.Remove(h.Trash, id+record.Suffix)
}

// purgeRecords removes the records whose entries were gone before.
func (p *Pool) purgeRecords(h *handle, names []string) error {
	var errs []error
	for _, name := range names {
		id, ok := strings.CutSuffix(name, record.Suffix)
		if !ok {
			continue
		}
		there, err := file.Exists(h.Trash, id)
		if !there && err == nil {
			if there, err = file.Exists(h.Trash, name); there {
				p.step("purge.record")
				err = file.Remove(h.Trash, name)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// purgeSlack is how far a purge runs ahead before it waits: timers are not
// fine enough to wait for every file.
const purgeSlack = 5 * time.Millisecond

// purgePace is the pace of removals, which it announces.
func (p *Pool) purgePace() tree.Pace {
	pace := p.pace()
	return func(ctx context.Context) error {
		if err := pace(ctx); err != nil {
			return err
		}
		p.step("purge.remove")
		return nil
	}
}

// pace waits such that no more than Config.PurgeRate files are handled a second.
func (p *Pool) pace() tree.Pace {
	var next time.Time
	return func(ctx context.Context) error {
		if p.config.PurgeRate > 0 {
			now := time.Now()
			if next.Before(now) {
				next = now
			}
			if wait := next.Sub(now); wait >= purgeSlack {
				if err := sleep(ctx, wait); err != nil {
					return err
				}
			}
			next = next.Add(time.Second / time.Duration(p.config.PurgeRate))
		}
		return nil
	}
}

// sleep waits, and returns early with the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// beating is the pace, each step of which is progress.
func (h *handle) beating(pace tree.Pace) tree.Pace {
	return func(ctx context.Context) error {
		h.call.Progress()
		if pace == nil {
			return ctx.Err()
		}
		return pace(ctx)
	}
}
