package space

import "kubevirt.io/hostpath-provisioner/volume/record"

// Use is what a volume takes of its promise, in bytes.
type Use struct {
	Volume record.Record
	Bytes  int64
	// Known is false where nobody looked yet, Exact true where the kernel
	// counts; otherwise Bytes is what the last walk found.
	Known, Exact bool
}

// Use returns what a volume uses, as far as that is known.
func (l *Ledger) Use(r record.Record) Use {
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
