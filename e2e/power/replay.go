package power

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Replay records what a pool does on a disk, and cuts the power of what it recorded.
type Replay struct {
	Filesystem Filesystem
	Disk       *Disk
	Subject    *Subject
	// Cuts is about how many disks are made of one log, those of recoveries left out.
	Cuts int
	// Keep is a directory for the disks of failures, "" for none.
	Keep string
	// Edit changes a log before it is replayed; nil does not.
	Edit func([]Event) []Event

	Result Result
}

// Result counts what a Replay did.
type Result struct {
	Logs, Calls, Disks int
	Recoveries         int // of the disks, those of a power cut in a recovery
	// Early are the failures that are the kernel's: btrfs returned from an fsync and had flushed
	// nothing.
	Early    int
	Failures []Failure
}

const (
	// atMost is how many failures a Replay looks for: more of them explain nothing more.
	atMost = 5
	// perCut is how many disks are made of a cut at the most.
	perCut = 3
	// inRecovery is how many of a hundred disks have their power cut again, at two moments of the
	// recovery.
	inRecovery = 10
)

// Run records and replays, with other seeds each time, until the deadline. Every other log has
// several callers at once; in those with one, the process with the pool is killed now and then. The
// error is that of the machine; faults of pools are in Result.
func (r *Replay) Run(seed uint64, deadline time.Time) error {
	for n := uint64(0); time.Now().Before(deadline) && len(r.Result.Failures) < atMost; n++ {
		w := Work{Seed: seed + n, Callers: 1, Calls: 40, Kills: true}
		if n%2 == 1 && !r.Filesystem.Unordered {
			w.Callers, w.Calls, w.Kills = 3, 16, false
		}
		log, err := r.record(w)
		if err != nil {
			return err
		}
		if err := r.replay(log, w, deadline); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replay) record(w Work) ([]Event, error) {
	if err := r.Disk.Rewind(); err != nil {
		return nil, err
	}
	r.Disk.Record()
	v, err := r.Subject.ask(request{Filesystem: r.Filesystem, Device: r.Disk.Path, Work: &w}, r.Disk)
	log := r.Disk.Stop()
	if err == nil && v.Mount != "" {
		err = errors.New(v.Mount)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: seed %d: %w", r.Filesystem.Name, w.Seed, err)
	}
	if err := r.Disk.Rewind(); err != nil {
		return nil, err
	}
	if r.Edit != nil {
		log = r.Edit(log)
	}
	r.Result.Logs++
	for _, e := range log {
		if e.Kind == Told {
			r.Result.Calls++
		}
	}
	return log, nil
}

// A cut is a moment at which the power can go: before an event of the log.
type cut struct {
	at     int
	weight float64 // how likely it is chosen
}

// cuts returns the moments of a log: after whatever a caller was told, before each flush, and, less
// often, between writes.
func (f Filesystem) cuts(log []Event) (all []cut, weight float64) {
	asked := map[string]bool{} // names with a call under way, "" for one on the whole pool
	for i := 0; i <= len(log); i++ {
		w := 0.0
		switch {
		case i == len(log), i > 0 && log[i-1].Kind == Told:
			w = 3
		case log[i].Kind == Flush:
			w = 2
		case log[i].Kind == Write && i > 0 && log[i-1].Kind == Write:
			w = 0.3
		}
		if w > 0 && (len(asked) == 0 || !f.Unordered) {
			all, weight = append(all, cut{i, w}), weight+w
		}
		if i < len(log) {
			switch log[i].Kind {
			case Ask:
				asked[log[i].Note.Name] = true
			case Told:
				delete(asked, log[i].Note.Name)
			}
		}
	}
	return all, weight
}

// replay walks through a log and makes disks of some of its cuts.
func (r *Replay) replay(log []Event, w Work, deadline time.Time) error {
	random := rand.New(rand.NewPCG(w.Seed, uint64(w.Callers)))
	moments, weight := r.Filesystem.cuts(log)
	var open []Event // writes that no flush followed
	var notes []json.RawMessage
	next := 0
	for _, m := range moments {
		for ; next < m.at; next++ {
			switch e := log[next]; e.Kind {
			case Write:
				open = append(open, e)
			case Flush:
				r.Disk.Harden(open)
				open = nil
			case Ask, Told:
				notes = append(notes, e.Note.Data)
			}
		}
		if random.Float64() >= m.weight*float64(r.Cuts)/weight/perCut {
			continue
		}
		for _, c := range choices(len(open), perCut, random) {
			if time.Now().After(deadline) || len(r.Result.Failures) >= atMost {
				return nil
			}
			kept := c.kept(open, random)
			d := disk{log: log, at: m.at, kept: kept, notes: notes, seed: random.Uint64(), callers: w.Callers,
				name: fmt.Sprintf("%s seed %d, %d callers, cut at %d: %s, %d of %d writes", r.Filesystem.Name, w.Seed, w.Callers,
					m.at, c, len(kept), len(open))}
			again := random.IntN(100) < inRecovery && !r.Filesystem.Unordered
			recovery, err := r.judge(d)
			if err == nil && again {
				err = r.cutAgain(d, recovery, random)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// disk is what a power cut left.
type disk struct {
	name    string
	log     []Event
	at      int
	kept    []Event // beside what is durable
	notes   []json.RawMessage
	seed    uint64
	callers int
	again   bool
}

// cutAgain cuts the power while the filesystem and the pool recover.
func (r *Replay) cutAgain(first disk, recovery []Event, random *rand.Rand) error {
	moments, _ := r.Filesystem.cuts(recovery)
	for range min(2, len(moments)) {
		m := moments[random.IntN(len(moments))]
		d := first
		d.kept, d.notes, d.again, d.seed = slices.Clone(first.kept), slices.Clone(first.notes), true, random.Uint64()
		var open []Event
		for _, e := range recovery[:m.at] {
			switch e.Kind {
			case Write:
				open = append(open, e)
			case Flush:
				d.kept, open = append(d.kept, open...), nil
			case Ask, Told:
				d.notes = append(d.notes, e.Note.Data)
			}
		}
		all := choices(len(open), perCut, random)
		c := all[random.IntN(len(all))]
		some := c.kept(open, random)
		d.kept = append(d.kept, some...)
		d.name += fmt.Sprintf("; again in the recovery at %d: %s, %d of %d writes", m.at, c, len(some), len(open))
		d.log, d.at = append(slices.Clone(first.log[:first.at]), recovery...), first.at+m.at
		r.Result.Recoveries++
		if _, err := r.judge(d); err != nil {
			return err
		}
	}
	return nil
}

// judge makes a disk, has a pool started on it, and returns the log of that.
func (r *Replay) judge(d disk) (recovery []Event, err error) {
	if err := r.Disk.Cut(d.kept); err != nil {
		return nil, err
	}
	if err := r.Filesystem.repair(r.Disk); err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	r.Disk.Record()
	r.Result.Disks++
	v, err := r.Subject.ask(request{Filesystem: r.Filesystem, Device: r.Disk.Path,
		Judge: &Judge{Seed: d.seed, Notes: d.notes}}, r.Disk)
	recovery = r.Disk.Stop()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	if v.Mount != "" {
		v.Faults = append(v.Faults, Fault{Text: "mount: " + v.Mount})
	}
	if len(v.Faults) == 0 {
		return recovery, nil
	}
	if r.Filesystem.early(d, v.Faults) {
		r.Result.Early++
		return recovery, nil
	}
	r.Result.Failures = append(r.Result.Failures, Failure{Case: d.name, Faults: v.Faults, Before: before(d.log[:d.at])})
	return recovery, r.keep(d)
}
