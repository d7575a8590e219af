package volume

import "sync"

// turns is a lock that so many may have at a time. A call stops waiting for it
// when its caller leaves.
type turns chan struct{}

// oneAtATime is a mutex that a call can stop waiting for.
func oneAtATime() turns { return make(turns, 1) }

// take waits for a turn and returns what gives it back.
func (t turns) take(c *call) (give func(), err error) {
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

func (t turns) give() { <-t }

// nameLocks lets the calls for one volume wait for each other. The zero value
// is ready; a name costs memory only while somebody holds or awaits it.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock // guarded by mu
}

type nameLock struct {
	turns
	users int // holding or waiting; guarded by nameLocks.mu
}

// lock waits for the name and returns what gives it back.
func (l *nameLocks) lock(c *call, name string) (unlock func(), err error) {
	l.mu.Lock()
	n := l.join(name)
	l.mu.Unlock()
	give, err := n.take(c)
	if err != nil {
		l.leave(name, n)
		return nil, err
	}
	return func() { give(); l.leave(name, n) }, nil
}

// tryLock is lock where nobody holds or awaits the name; otherwise ok is false.
func (l *nameLocks) tryLock(name string) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != nil {
		return nil, false
	}
	n := l.join(name)
	n.turns <- struct{}{}
	return func() { n.give(); l.leave(name, n) }, true
}

// join counts another user of the name. The caller holds mu.
func (l *nameLocks) join(name string) *nameLock {
	if l.held == nil {
		l.held = map[string]*nameLock{}
	}
	n := l.held[name]
	if n == nil {
		n = &nameLock{turns: oneAtATime()}
		l.held[name] = n
	}
	n.users++
	return n
}

func (l *nameLocks) leave(name string, n *nameLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.held, name)
	}
}

// door lets in any number of calls, or one alone, which goes before those that
// come after it. A call stops waiting when its caller leaves. The zero value is
// ready.
type door struct {
	mu      sync.Mutex
	inside  int           // calls
	alone   bool          // one is inside that lets in no other
	wanted  int           // calls that want to be alone
	changed chan struct{} // closed when one left; nil while none waits
}

// enter waits until the call may be inside with others; leave ends that.
func (d *door) enter(c *call) error {
	return d.await(c, d.free)
}

// tryEnter is enter where that takes no waiting; otherwise it is false.
func (d *door) tryEnter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free()
}

// free takes a place for a call that may be inside with others. The caller holds
// mu.
func (d *door) free() bool {
	if d.alone || d.wanted > 0 {
		return false
	}
	d.inside++
	return true
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	d.tell()
}

// enterAlone waits until the call is the only one inside; leaveAlone ends that.
func (d *door) enterAlone(c *call) error {
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
		d.tell()
	}
	return err
}

func (d *door) leaveAlone() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alone = false
	d.tell()
}

// tell wakes those that wait. The caller holds mu.
func (d *door) tell() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// await waits until try, which is called with mu held, says yes.
func (d *door) await(c *call, try func() bool) error {
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
