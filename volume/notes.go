package volume

import (
	"slices"
	"strings"
)

// resetNotes replaces all notes.
func (p *Pool) resetNotes(notes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = notes
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
	p.quotas.Forget(name)
}

// everUsed reports whether this process knows of anything in the pool.
func (p *Pool) everUsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ledger.IsEmpty() || len(p.notes) > 0
}
