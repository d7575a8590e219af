package volume

import (
	"sync"
)

// family is the pools of one process. Those on one filesystem share its space:
// what one promises no other may promise again.
type family struct {
	// mu makes looking and promising one step for all pools. It is held for
	// sums over memory only, never while a disk is asked. Who holds it may take
	// the mu of one pool after the other.
	mu    sync.Mutex
	pools []*Pool
	rises map[string]*rise // by filesystem; guarded by mu
}

func newFamily(pools ...*Pool) *family { return &family{pools: pools, rises: map[string]*rise{}} }

// elsewhere sums what the other pools on the filesystem of p promised, and what
// their volumes were found to use. The caller holds mu.
func (f *family) elsewhere(p *Pool) (all others) {
	at := p.ledger.where()
	for _, other := range f.pools {
		if other == p || at == "" || other.ledger.where() != at {
			continue
		}
		l := other.ledger
		l.mu.Lock()
		here, _ := l.using()
		all.promised, all.found = add(all.promised, l.promised()), append(all.found, here...)
		l.mu.Unlock()
	}
	return all
}

// recorded returns how many volumes on the filesystem are recorded with the limit
// ID, in p, which lies there, and in the other pools of the process.
func (f *family) recorded(p *Pool, at string, id uint64) int {
	n := p.records.WithLimitID(id)
	for _, other := range f.pools {
		if other != p && at != "" && other.ledger.where() == at {
			n += other.records.WithLimitID(id)
		}
	}
	return n
}

func (l *ledger) setFilesystem(filesystem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filesystem = filesystem
}

// where is the filesystem of the ledger's pool.
func (l *ledger) where() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filesystem
}
