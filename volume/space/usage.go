//go:build linux

package space

import "kubevirt.io/hostpath-provisioner/volume/record"

// Usage is the use of a volume, in bytes.
type Usage struct {
	Volume record.Record
	Bytes  int64
	// Known is false before the first walk. Exact is true if the kernel counts the volume;
	// otherwise Bytes is the result of the last walk.
	Known, Exact bool
}

// Usage returns the last measurement of a volume.
func (l *Ledger) Usage(r record.Record) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := Usage{Volume: r}
	if u.Bytes, u.Exact = l.metered[r.Name]; u.Exact {
		u.Known = true
		return u
	}
	u.Bytes, u.Known = l.used[r.Name]
	return u
}
