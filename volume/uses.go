package volume

import "kubevirt.io/hostpath-provisioner/volume/fault"

// Use is what a volume takes of its promise, in bytes.
type Use struct {
	Volume Record
	Bytes  int64
	// Known is false where nobody looked yet, Exact true where the kernel
	// counts; otherwise Bytes is what the last walk found.
	Known, Exact bool
}

// Uses returns what the volumes that are in place use, sorted by name. It walks
// nothing: counters of the kernel may be a second old, walks as old as the last
// Measure.
func (p *Pool) Uses() ([]Use, error) {
	const op = "list what volumes use"
	var all []Use
	err := p.enter(op, func(h *handle) error {
		p.meter(h)
		for _, r := range p.records.InPlace() {
			all = append(all, p.ledger.use(r))
		}
		return nil
	})
	if err != nil {
		return nil, fault.Failed(op, p.path, err)
	}
	return all, nil
}

func (l *ledger) use(r Record) Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := Use{Volume: r}
	if u.Bytes, u.Exact = l.metered[r.Name]; u.Exact {
		u.Known = true
		return u
	}
	u.Bytes, u.Known = l.used[r.Name]
	return u
}
