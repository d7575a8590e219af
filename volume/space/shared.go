//go:build linux

package space

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A counter of XFS counts the blocks that files share for each of the files. So it can be larger than
// what the volume uses, by what a walk finds shared. The larger of two walks counts: files can be
// moved while they are walked. What is shared after the walk is not known before the next one.

// sharing is what files of the volumes share, by volume. The ledger's mu guards it.
type sharing struct {
	last map[string]Shared // the last walk
	most map[string]Shared // the larger of the last two
}

// Shared is how many bytes of a volume its counter may count more than once.
type Shared struct {
	Bytes int64 `json:"bytes"`
	// Created is when the volume was created: another one can have its name.
	Created time.Time `json:"created"`
}

// of returns what is subtracted from the counter of a volume.
func (s sharing) of(r record.Record) int64 {
	if found := s.most[r.Name]; found.Created.Equal(r.Created) {
		return found.Bytes
	}
	return 0
}

// Shared returns what the last two walks found, for the next process.
func (l *Ledger) Shared() map[string]Shared {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]Shared{}
	for name, found := range l.shared.most {
		if r, ok := l.records.Get(name); ok && found.Bytes > 0 && found.Created.Equal(r.Created) {
			all[name] = found
		}
	}
	return all
}

// SetShared stores what Shared returned in a former process.
func (l *Ledger) SetShared(all map[string]Shared) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = sharing{last: maps.Clone(all), most: maps.Clone(all)}
}

// noteShared stores what a walk of a volume found.
func (l *Ledger) noteShared(r record.Record, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has(r) {
		return
	}
	now := Shared{bytes, r.Created}
	most := now
	if before := l.shared.last[r.Name]; before.Created.Equal(r.Created) && before.Bytes > bytes {
		most = before
	}
	if l.shared.last == nil {
		l.shared = sharing{map[string]Shared{}, map[string]Shared{}}
	}
	l.shared.last[r.Name], l.shared.most[r.Name] = now, most
}

// Share stores that a volume got so many bytes that it shares with another one, until the next walk
// finds out.
func (l *Ledger) Share(r record.Record, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has(r) {
		return
	}
	if l.shared.last == nil {
		l.shared = sharing{map[string]Shared{}, map[string]Shared{}}
	}
	sum := Shared{add(l.shared.of(r), bytes), r.Created}
	l.shared.last[r.Name], l.shared.most[r.Name] = sum, sum
}

// counted returns the volumes in place whose use the kernel counts.
func (l *Ledger) counted() []record.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records.Sorted(func(r record.Record) bool {
		_, counted := l.metered[r.Name]
		return r.InPlace() && counted
	})
}

// walkShared walks the volumes whose counters may count blocks more than once. One that cannot be
// walked keeps what was found before.
func (l *Ledger) walkShared(ctx context.Context, shared func(ctx context.Context, volume string) (int64, error)) error {
	if shared == nil {
		return nil
	}
	var errs []error
	for _, r := range l.counted() {
		bytes, err := shared(ctx, r.Name)
		switch {
		case ctx.Err() != nil:
			return errors.Join(append(errs, ctx.Err())...)
		case err == nil:
			l.noteShared(r, bytes)
		case !errors.Is(err, unix.ENOENT):
			errs = append(errs, fmt.Errorf("volume %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}
