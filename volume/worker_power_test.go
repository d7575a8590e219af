//go:build power

package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A worker is one of the callers, with volumes of its own.
type worker struct {
	*caller
	random *rand.Rand
	step   func(string)
	kills  bool
	alone  bool
	last   string // the name of the last call
}

// keeps draws whether a volume is kept once it is deleted. Not without a journal: the rename of its record,
// which is flushed later, may reach the disk by half then, and leave none.
func (w *worker) keeps() bool { return !w.unordered && w.random.IntN(2) == 0 }

// one makes one call for a name, and makes it again if the process died in it.
func (w *worker) one(name string) error {
	if w.random.IntN(8) == 0 {
		w.syncAll("half a minute passes")
	}
	if w.alone && w.random.IntN(4) == 0 {
		if err := w.finish(note{Do: "purge"}); err != nil {
			return err
		}
		// Without a journal, the old name of a removed file shows what its inode is used for next,
		// unless the name is flushed.
		if w.unordered || w.random.IntN(2) == 0 {
			w.stranger(4) // the trash
		}
	}
	if w.last != "" && w.random.IntN(3) == 0 { // what is done to a name is undone, and done again, before anything else
		name = w.last
	}
	w.last = name
	return w.finish(w.choose(name, w.account.of(name)))
}

// finish makes a call, and repeats it while the process is killed in it. Some deletions that were
// not decided are taken back.
func (w *worker) finish(n note) error {
	for {
		if w.kills {
			switch w.random.IntN(6) {
			case 0:
				w.life = &life{at: 1 + w.random.IntN(8), armed: true}
			case 1, 2:
				w.killAt = 1 + w.random.IntN(3)
			}
		}
		killed, err := w.call(n)
		w.life.set(false)
		w.killAt = 0
		if !killed && n.Do == "restore" && err == nil {
			err = w.bindAll()
		}
		if !killed {
			if err != nil {
				err = fmt.Errorf("%v: %w", n, err)
			}
			return err
		}
		w.die()
		if err := w.start(w.step, true, w.random); err != nil {
			return err
		}
		if n.Do != "delete" || w.random.IntN(2) == 0 {
			continue
		}
		if _, err := w.pool.Get(n.Name); err == nil || errors.Is(err, volume.ErrSetAside) {
			n = note{Do: "restore", Name: n.Name}
		}
	}
}

// choose returns a call that the name is ready for.
func (w *worker) choose(name string, k known) note {
	serial := w.serial.Add(1)
	n := note{Name: name, UID: k.UID, Bytes: k.Bytes}
	if kept := k.keptSurely(); len(kept) > 0 && w.random.IntN(4) == 0 {
		n.UID = kept[w.random.IntN(len(kept))]
		if n.Do = "undelete"; k.Record || k.Place != nil || w.random.IntN(3) == 0 {
			n.Do = "drop"
		}
		return n
	}
	from, source := w.source(name)
	switch x := w.random.IntN(100); {
	case !k.Record && k.Place == nil && x < 50 && from != "":
		n.Do, n.UID, n.From, n.Bytes = "clone", fmt.Sprintf("u%d", serial), from, source.Bytes
		n.Mode, n.Owner, n.Files = source.Place.Mode, source.Place.Owner, source.Place.Files
		n.Keep = w.keeps()
	case !k.Record && k.Place == nil && x < 70:
		n.Do, n.UID, n.Bytes = "create", fmt.Sprintf("u%d", serial), mib
		n.Mode, n.Owner = []uint32{0o2770, 0o750, 0o777}[w.random.IntN(3)], []uint32{0, 1000}[w.random.IntN(2)]
		n.Keep = w.keeps()
	case !k.Record && k.Place == nil:
		n.Do, n.File, n.Mode = "mkdir", fmt.Sprintf("s%d", serial), 0o755
	case !k.Record && x < 60:
		n.Do, n.UID, n.Bytes = "adopt", fmt.Sprintf("u%d", serial), mib
	case !k.Record:
		n.Do = "rmdir"
	case k.Place == nil:
		n.Do = "delete" // its directory was lost
	case x < 20 && len(k.Place.Files) == 0 && k.Bound == no && !k.Adopted:
		n.Do = "undo"
	case x < 25:
		n.Do, n.File = "write", fmt.Sprintf("f%d", serial)
	case x < 35 && k.Bound == no, x < 38 && k.Orphan != "":
		n.Do = "bind"
	case x < 50 && k.Bytes < 4*mib:
		n.Do, n.Bytes = "expand", k.Bytes+mib/2
	case x < 56:
		n.Do, n.Why = "orphan", fmt.Sprintf("why%d", serial)
	case x < 60 && k.written:
		n.Do = "lose"
	default:
		n.Do = "delete"
	}
	return n
}

// source returns another volume of the worker that can be copied and has files, "" if there is none.
func (w *worker) source(name string) (string, known) {
	mine := name[:len(name)-1]
	for _, from := range w.account.each() {
		if k := w.account.of(from); from != name && strings.HasPrefix(from, mine) && k.Record && !k.Adopted && k.Place != nil && len(k.Place.Files) > 0 {
			return from, k
		}
	}
	return "", known{}
}
