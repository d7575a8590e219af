//go:build power

package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume"
)

// A judge starts a pool on what a power cut left, and collects faults.
type judge struct {
	*caller
	faults []powerFault
}

// judge compares the pool with what callers knew: after each of two starts, after the calls that an
// administrator and the callers make next, and after a purge.
func (c *caller) judge(notes []note, seed uint64) []powerFault {
	for _, n := range notes {
		c.account.take(n)
	}
	c.account.purging = nil // the power went
	j := &judge{caller: c}
	j.all(rand.New(rand.NewPCG(seed, 0)))
	return j.faults
}

func (j *judge) fault(name, format string, args ...any) {
	j.faults = append(j.faults, powerFault{name, fmt.Sprintf(format, args...)})
}

// failed reports whether there is an error, and adds it to the faults.
func (j *judge) failed(name, what string, err error) bool {
	if err != nil {
		j.fault(name, "%s: %v", what, err)
	}
	return err != nil
}

func (j *judge) all(random *rand.Rand) {
	if j.account.pool != "" && !there(filepath.Join(j.path, private, "pool.json")) {
		j.fault("", "the identity of the pool is gone")
		return
	}
	if !j.restart() {
		return
	}
	j.check("after the start")
	j.account.takeBack(j.pool.Kept())
	first := j.everything()
	j.pool.Close()
	if !j.restart() {
		return
	}
	j.same(first, j.everything())
	if j.failed("", "bind", j.bindAll()) {
		return
	}
	j.decide(random)
	if j.failed("", "bind", j.bindAll()) { // what was brought back
		return
	}
	j.again()
	j.purge()
	j.check("after a purge")
	j.fresh()
}

// restart opens the pool, and notes it.
func (j *judge) restart() bool {
	j.life = &life{}
	j.note(note{Do: "start"})
	if j.failed("", "start", j.open(func(step string) { j.say(isStep, noteMessage{Text: step}) })) {
		return false
	}
	if id := j.pool.ID(); j.account.pool != "" && id != j.account.pool {
		j.fault("", "the pool is %s, and was %s", id, j.account.pool)
		return false
	}
	j.note(note{Do: "start", Told: true, UID: j.pool.ID()})
	return true
}

// decide finishes the deletions of volumes that are set aside, as an administrator does, or takes
// back those whose callers had no answer.
func (j *judge) decide(random *rand.Rand) {
	for _, r := range j.pool.SetAside() {
		if j.account.of(r.Name).was != nil { // no call is due: its caller has the result
			j.failed(r.Name, "delete of what was set aside", j.pool.Delete(r.Name))
			continue
		}
		n := note{Do: []string{"delete", "restore"}[random.IntN(2)], Name: r.Name}
		_, err := j.call(n)
		j.failed(r.Name, n.Do+" of what was set aside", err)
	}
}

// again repeats the calls that were under way, as their callers do.
func (j *judge) again() {
	for _, name := range j.account.each() {
		pending := j.account.pending[name]
		if len(pending) == 0 {
			continue
		}
		n := pending[len(pending)-1]
		_, err := j.pool.Get(name)
		switch n.Do {
		case "bind", "expand", "orphan", "restore", "undo":
			if errors.Is(err, volume.ErrNotFound) {
				continue
			}
		case "create", "clone", "delete", "adopt", "undelete", "drop":
		default:
			continue // no call of the pool
		}
		_, err = j.call(n)
		j.failed(name, n.Do+" again", err)
	}
}

func (j *judge) purge() {
	_, err := j.call(note{Do: "purge"})
	j.failed("", "purge", err)
	if left := j.names(trash); len(left) > 0 {
		j.fault("", "the trash still has %q", left)
	}
}

// fresh makes a volume under a name that is free, and deletes it.
func (j *judge) fresh() {
	n := note{Do: "create", Name: "fresh", UID: "fresh", Bytes: mib, Mode: 0o750}
	for _, name := range j.account.each() {
		if k := j.account.of(name); !k.Record && k.Place == nil && !j.account.underWay(name) {
			n.Name = name
		}
	}
	_, err := j.call(n)
	if j.failed(n.Name, "create under a free name", err) {
		return
	}
	_, err = j.call(note{Do: "delete", Name: n.Name})
	j.failed(n.Name, "delete", err)
	j.purge()
	j.check("at the end")
}

// check compares what is there with what callers know.
func (j *judge) check(when string) {
	for _, text := range j.pool.Damaged() {
		j.fault("", "%s: damaged: %s", when, text)
	}
	for _, b := range unsound(j.pool) {
		j.fault("", "%s: %s", when, b.text)
	}
	for _, name := range j.names(private) {
		if !slices.Contains([]string{"kept", "lock", "pool.json", "records", "staging", "trash"}, name) {
			j.fault("", "%s: left over: %s", when, name)
		}
	}
	found, err := j.found()
	if j.failed("", when, err) {
		return
	}
	for _, name := range j.account.each() {
		if _, ok := found[name]; !ok {
			found[name] = known{}
		}
	}
	for name, is := range found {
		var why []string
		for _, k := range j.account.may(name) {
			text := k.unlike(is)
			if text == "" {
				why = nil
				break
			}
			why = append(why, text)
		}
		if why != nil {
			j.fault(name, "%s, with %v under way: %s", when, j.account.pending[name], strings.Join(why, "; or "))
		}
	}
}

// names returns the names in a directory of the pool.
func (j *judge) names(dir string) (all []string) {
	entries, err := os.ReadDir(filepath.Join(j.path, dir))
	j.failed("", "read "+dir, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
