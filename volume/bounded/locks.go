package bounded

import "sync"

// Turns is a lock that so many may have at a time. A call stops waiting for it
// when its caller leaves.
type Turns chan struct{}

// OneAtATime is a mutex that a call can stop waiting for.
func OneAtATime() Turns { return make(Turns, 1) }

// Take waits for a turn and returns what gives it back.
func (t Turns) Take(c *Call) (give func(), err error) {
	select {
	case t <- struct{}{}:
		return t.give, nil
	default:
	}
	if c == nil {
		t <- struct{}{}
		return t.give, nil
	}
	if err := c.enter(waiting); err != nil {
		return nil, err
	}
	select {
	case t <- struct{}{}:
		if err := c.enter(onDisk); err != nil {
			t.give()
			return nil, err
		}
		return t.give, nil
	case <-c.gone:
		return nil, errLeft
	}
}

func (t Turns) give() { <-t }

// NameLocks lets the calls for one volume wait for each other. The zero value
// is ready; a name costs memory only while a call holds or awaits it.
type NameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock // guarded by mu
}

type nameLock struct {
	Turns
	users int // holding or waiting; guarded by NameLocks.mu
}

// Lock waits for the name and returns what gives it back.
func (l *NameLocks) Lock(c *Call, name string) (unlock func(), err error) {
	l.mu.Lock()
	n := l.join(name)
	l.mu.Unlock()
	give, err := n.Take(c)
	if err != nil {
		l.leave(name, n)
		return nil, err
	}
	return func() { give(); l.leave(name, n) }, nil
}

// TryLock is Lock if no call holds or awaits the name; otherwise ok is false.
func (l *NameLocks) TryLock(name string) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != nil {
		return nil, false
	}
	n := l.join(name)
	n.Turns <- struct{}{}
	return func() { n.give(); l.leave(name, n) }, true
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

// Door lets in any number of calls, or one alone, which goes before those that
// come after it. A call stops waiting when its caller leaves. The zero value is
// ready.
type Door struct {
	mu      sync.Mutex
	inside  int           // calls
	alone   bool          // one is inside that lets in no other
	wanted  int           // calls that want to be alone
	changed chan struct{} // closed when one left; nil while none waits
}

// Enter waits until the call may be inside with others; Leave ends that.
func (d *Door) Enter(c *Call) error {
	return d.await(c, d.free)
}

// TryEnter is Enter where that takes no waiting; otherwise it is false.
func (d *Door) TryEnter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free()
}

// free takes a place for a call that may be inside with others. The caller holds
// mu.
func (d *Door) free() bool {
	if d.alone || d.wanted > 0 {
		return false
	}
	d.inside++
	return true
}

// Leave ends what Enter or TryEnter began.
func (d *Door) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	d.wake()
}

// EnterAlone waits until the call is the only one inside; LeaveAlone ends that.
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

// LeaveAlone ends what EnterAlone began.
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

// await waits until try, which is called with mu held, says yes.
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
