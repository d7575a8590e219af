package bounded

import (
	"sync"
	"time"
)

// Turns is a lock that a fixed number of calls can hold at a time. A call stops waiting for it when
// its caller leaves.
type Turns chan struct{}

// OneAtATime is a mutex that a call can stop waiting for.
func OneAtATime() Turns { return make(Turns, 1) }

// Take waits for a turn. The caller calls release when it has finished.
func (t Turns) Take(c *Call) (release func(), err error) {
	select {
	case t <- struct{}{}:
		return t.release, nil
	default:
	}
	if c == nil {
		t <- struct{}{}
		return t.release, nil
	}
	if err := c.enter(waiting); err != nil {
		return nil, err
	}
	select {
	case t <- struct{}{}:
		if err := c.enter(onDisk); err != nil {
			t.release()
			return nil, err
		}
		return t.release, nil
	case <-c.gone:
		return nil, errLeft
	}
}

func (t Turns) release() { <-t }

// NameLocks has a lock for each volume name. The zero value is ready to use. A name takes memory
// only while a call holds its lock or waits for it.
type NameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock // guarded by mu
}

type nameLock struct {
	Turns
	users int // calls that hold it or wait for it; guarded by NameLocks.mu
}

// Lock waits for the lock of a name. The caller calls unlock when it has finished.
func (l *NameLocks) Lock(c *Call, name string) (unlock func(), err error) {
	l.mu.Lock()
	n := l.join(name)
	l.mu.Unlock()
	if _, err := n.Take(c); err != nil {
		l.leave(name, n)
		return nil, err
	}
	return func() { n.release(); l.leave(name, n) }, nil
}

// LockUnbounded is Lock for a caller that is no Call, and waits for as long as the lock is taken.
func (l *NameLocks) LockUnbounded(name string) (unlock func()) {
	unlock, _ = l.Lock(nil, name) // the only error is that of a Call whose caller has left
	return unlock
}

// LockWithin is LockUnbounded for a caller that waits no longer than that; then ok is false.
func (l *NameLocks) LockWithin(patience time.Duration, name string) (unlock func(), ok bool) {
	l.mu.Lock()
	n := l.join(name)
	l.mu.Unlock()
	select {
	case n.Turns <- struct{}{}:
		return func() { n.release(); l.leave(name, n) }, true
	case <-time.After(patience):
		l.leave(name, n)
		return nil, false
	}
}

// TryLock is Lock if no call holds the lock or waits for it; otherwise ok is false.
func (l *NameLocks) TryLock(name string) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != nil {
		return nil, false
	}
	n := l.join(name)
	n.Turns <- struct{}{}
	return func() { n.release(); l.leave(name, n) }, true
}

// join counts another user of the name. The caller holds mu.
func (l *NameLocks) join(name string) *nameLock {
	if l.held == nil {
		l.held = map[string]*nameLock{}
	}
	n := l.held[name]
	if n == nil {
		n = &nameLock{Turns: OneAtATime()}
		l.held[name] = n
	}
	n.users++
	return n
}

func (l *NameLocks) leave(name string, n *nameLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.held, name)
	}
}

// Door is a lock for readers and a writer: it admits any number of calls, or one call alone. A call
// that waits to be alone goes before later calls. A call stops waiting when its caller leaves. The
// zero value is ready to use.
type Door struct {
	mu      sync.Mutex
	inside  int           // calls
	alone   bool          // a call is alone inside
	wanted  int           // calls that want to be alone
	changed chan struct{} // closed when a call leaves; nil while no call waits
}

// Enter waits until the call can be inside with others. The caller calls Leave afterwards.
func (d *Door) Enter(c *Call) error {
	return d.await(c, d.free)
}

// TryEnter is Enter if that does not have to wait; otherwise it returns false.
func (d *Door) TryEnter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free()
}

// free admits a call with others if no call is alone inside or waits to be. The caller holds mu.
func (d *Door) free() bool {
	if d.alone || d.wanted > 0 {
		return false
	}
	d.inside++
	return true
}

// Leave reverses Enter or TryEnter.
func (d *Door) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	d.wake()
}

// EnterAlone waits until the call is the only one inside. The caller calls LeaveAlone afterwards.
func (d *Door) EnterAlone(c *Call) error {
	d.mu.Lock()
	d.wanted++
	d.mu.Unlock()
	err := d.await(c, func() bool {
		if d.alone || d.inside > 0 {
			return false
		}
		d.alone = true
		return true
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted--
	if err != nil {
		d.wake()
	}
	return err
}

// LeaveAlone reverses EnterAlone.
func (d *Door) LeaveAlone() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alone = false
	d.wake()
}

// wake wakes the calls that wait. The caller holds mu.
func (d *Door) wake() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// await waits until try returns true. It calls try with mu held.
func (d *Door) await(c *Call, try func() bool) error {
	for {
		d.mu.Lock()
		if try() {
			d.mu.Unlock()
			return nil
		}
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		changed := d.changed
		d.mu.Unlock()
		if err := c.await(changed); err != nil {
			return err
		}
	}
}
