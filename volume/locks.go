package volume

import "sync"

// nameLocks lets the calls for one volume wait for each other. The zero value
// is ready; a name costs memory only while somebody holds or awaits it.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock // guarded by mu
}

type nameLock struct {
	sync.Mutex
	users int // holding or waiting; guarded by nameLocks.mu
}

// lock waits for the name and returns what gives it back.
func (l *nameLocks) lock(name string) (unlock func()) {
	l.mu.Lock()
	n := l.join(name)
	l.mu.Unlock()
	n.Lock()
	return func() { l.leave(name, n) }
}

// tryLock is lock where nobody holds or awaits the name; otherwise ok is false.
func (l *nameLocks) tryLock(name string) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != nil {
		return nil, false
	}
	n := l.join(name)
	n.Lock()
	return func() { l.leave(name, n) }, true
}

// join counts another user of the name. The caller holds mu.
func (l *nameLocks) join(name string) *nameLock {
	if l.held == nil {
		l.held = map[string]*nameLock{}
	}
	n := l.held[name]
	if n == nil {
		n = &nameLock{}
		l.held[name] = n
	}
	n.users++
	return n
}

func (l *nameLocks) leave(name string, n *nameLock) {
	n.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.held, name)
	}
}
