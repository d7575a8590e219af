//go:build vm

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var bg = context.Background()

const (
	callers = 4
	own     = 3 // volumes of each caller
	// busyFor is how long all callers call at once.
	busyFor = 700 * time.Millisecond
	// quietFor is how long nothing happens after a call that was alone: time
	// to cut the power before the kernel flushes what the call did not.
	quietFor = 200 * time.Millisecond
)

// busy makes calls on many volumes at once, and empties the trash meanwhile.
func (c *cut) busy(seed uint64) {
	end := time.Now().Add(busyFor)
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for time.Now().Before(end) {
				c.call(fmt.Sprintf("v%d-%d", i, random.IntN(own)), random)
			}
		})
	}
	wait.Go(func() {
		for time.Now().Before(end) {
			if _, err := c.pool.Purge(bg); err != nil {
				c.fault(breach{"broken", err.Error()})
			}
			time.Sleep(busyFor / 4)
		}
	})
	wait.Wait()
}

// quiet makes one call that no other flushes anything for.
func (c *cut) quiet() {
	c.call("alone", rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)))
	c.say("quiet")
	time.Sleep(quietFor)
}

// call makes a call that the volume is ready for.
func (c *cut) call(name string, random *rand.Rand) {
	c.world.mu.Lock()
	is := c.world.of(name)[0]
	c.world.mu.Unlock()
	o := op{name: name}
	switch n := random.IntN(10); {
	case !is.Record && !is.Dir && n < 2:
		o.do = "mkdir"
	case !is.Record && !is.Dir:
		o.do, o.bytes = "create", size
	case !is.Record:
		o.do, o.bytes = "adopt", size
	case !is.Bound && n < 4:
		o.do = "bind"
	case !is.Bound && n < 6:
		o.do = "undo"
	case n < 7 && is.Bytes < 4*size:
		o.do, o.bytes = "expand", is.Bytes+mib
	case n < 8:
		o.do = "fill"
	default:
		o.do = "delete"
	}
	c.say("ask %v", o)
	_, err := c.world.do(c.pool, o)
	if o.do == "mkdir" { // another program's, which flushes it
		err = errors.Join(err, c.flush(name), c.flush(""))
	}
	if err != nil {
		c.say("told %v %v", o, err)
		return
	}
	c.say("told %v", o)
}

func (c *cut) flush(name string) error {
	fd, err := openDir(filepath.Join(c.pool.Path(), name))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}
