package volume

import (
	"slices"
	"strings"
)

// resetNotes replaces all notes and forgets which volumes lost their quota. The
// records were read from the disk.
func (p *Pool) resetNotes(notes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes, p.strays = notes, map[string]string{}
}

func (p *Pool) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, text)
}

// unnote forgets the notes that begin like this.
func (p *Pool) unnote(begin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = slices.DeleteFunc(p.notes, func(n string) bool { return strings.HasPrefix(n, begin) })
}

// left forgets a volume that was deleted, or is being deleted.
func (p *Pool) left(name string) {
	p.ledger.Forget(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.records.Get(name); !there {
		delete(p.strays, name)
	}
}

// everUsed reports whether this process knows of anything in the pool.
func (p *Pool) everUsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ledger.IsEmpty() || len(p.notes) > 0
}
