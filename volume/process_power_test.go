//go:build power

package volume_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// work makes so many calls, as so many callers at once. With kills, the process with the pool dies
// now and then.
func (c *caller) work(seed uint64, callers, calls int, kills bool) error {
	random := rand.New(rand.NewPCG(seed, 0))
	strangers := callers > 1 || random.IntN(2) == 0
	var mu sync.Mutex // of random, while steps draw
	step := func(name string) {
		c.say(isStep, noteMessage{Text: name})
		if c.killAt > 0 && afterChange(name) {
			if c.killAt--; c.killAt == 0 {
				c.life = &life{at: 1, armed: true}
			}
		}
		c.life.step(name)
		mu.Lock()
		flushes, which := strangers && random.IntN(6) == 0, random.IntN(9)
		mu.Unlock()
		if flushes {
			c.stranger(which)
		}
	}
	if err := c.start(step, kills, random); err != nil {
		return err
	}
	end := func() {}
	if callers > 1 {
		end = c.purgeBeside()
	}
	errs := make([]error, callers)
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			w := worker{caller: c, random: rand.New(rand.NewPCG(seed, uint64(i+1))), step: step, kills: kills, alone: callers == 1}
			for n := 0; n < calls && errs[i] == nil; n++ {
				errs[i] = w.one(fmt.Sprintf("v%d-%d", i, w.random.IntN(3)))
			}
		})
	}
	wait.Wait()
	end()
	return errors.Join(errs...)
}

// start opens the pool as a new process, which dies on its way if kills is set, and does what the
// provisioning loop does first: PVs are bound to their volumes.
func (c *caller) start(step func(string), kills bool, random *rand.Rand) error {
	for {
		c.life = &life{}
		if kills && random.IntN(4) == 0 {
			c.life = &life{at: 1 + random.IntN(12), armed: true}
		}
		c.note(note{Do: "start"})
		died, err := c.life.live(func() error { return c.open(step) })
		if err != nil {
			return err
		}
		c.life.set(false)
		if !died {
			break
		}
		c.die()
	}
	c.note(note{Do: "start", Told: true, UID: c.pool.ID()})
	return c.bindAll()
}

// die closes what a process that was killed had open on the disk, as its kernel does. Files to
// which nothing refers close themselves after a collection; descriptors do not.
func (c *caller) die() {
	c.pool.Close()
	runtime.GC()
	for n := 0; n < 20 && len(c.openFiles()) > 0; n++ {
		time.Sleep(time.Millisecond)
	}
	for _, fd := range c.openFiles() {
		unix.Close(fd)
	}
}

// openFiles returns the descriptors of this process on the disk.
func (c *caller) openFiles() (all []int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if fd, err := strconv.Atoi(e.Name()); err == nil && strings.HasPrefix(to+"/", c.root+"/") {
			all = append(all, fd)
		}
	}
	return all
}

// afterChange reports whether the step is one before which something was changed and not flushed,
// or was just flushed.
func afterChange(step string) bool {
	return strings.HasSuffix(step, ".sync") || strings.HasSuffix(step, ".flush") || step == "delete.move"
}

// bindAll binds the volumes that have a PV, as the provisioning loop does after a start, and once a
// volume was brought back: the process before need not have written that. It is not noted, because
// it ends no call that was under way.
func (c *caller) bindAll() error {
	for _, name := range c.account.each() {
		k := c.account.of(name)
		v, err := c.pool.Get(name)
		if k.Bound == no || err != nil || v.Owner.UID != k.UID || v.Orphan.Why != "" {
			continue
		}
		if err := c.perform(note{Do: "bind", Name: name, UID: k.UID}, nil); err != nil {
			return err
		}
	}
	return nil
}

// purgeBeside purges again and again, until end is called.
func (c *caller) purgeBeside() (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if _, err := c.call(note{Do: "purge"}); err != nil {
					panic(err)
				}
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// stranger flushes one of the pool's directories, a record, or the whole filesystem, as other
// programs may. Then the disk has what came before, and a flush that the pool omits later is not
// hidden.
func (c *caller) stranger(which int) {
	var path string
	switch {
	case which < 6:
		path = filepath.Join(c.path, []string{"", private, records, staging, trash, keptDir}[which])
	case which == 6:
		c.syncAll("a stranger flushes all")
		return
	default:
		found, _ := filepath.Glob(filepath.Join(c.path, records, "*"))
		if len(found) == 0 {
			return
		}
		path = found[0]
	}
	if flushPath(path) == nil { // it need not be there
		c.say(isStep, noteMessage{Text: "a stranger flushes " + path})
	}
}

// syncAll flushes the filesystem, as the kernel does every half a minute.
func (c *caller) syncAll(why string) {
	if fd, err := unix.Open(c.path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Syncfs(fd)
		unix.Close(fd)
		c.say(isStep, noteMessage{Text: why})
	}
}
