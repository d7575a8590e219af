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
	if l.held == nil {
		l.held = map[string]*nameLock{}
	}
	n := l.held[name]
	if n == nil {
		n = &nameLock{}
		l.held[name] = n
	}
	n.users++
	l.mu.Unlock()
	n.Lock()
	return func() {
		n.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(l.held, name)
		}
	}
}
