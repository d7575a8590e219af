//go:build linux

package space

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// What a copy shares counts for neither volume until a walk finds out, and what a copy has written so
// far counts once.
func TestShare(t *testing.T) {
	store := record.NewStore(func(string) {})
	l := NewLedger(store, 0, 1)
	at := time.Unix(1000, 0)
	source := record.Record{Name: "v", State: record.Bound, Bytes: 100, Created: at}
	clone := record.Record{Name: "c", State: record.Creating, Bytes: 100, Created: at, Source: &record.Source{Volume: "v", Created: at}}
	store.Set(source)
	store.Set(clone)
	sure := func(want int64) {
		t.Helper()
		l.mu.Lock()
		defer l.mu.Unlock()
		if all, _ := l.using(); total(all) != want {
			t.Errorf("%d bytes are surely used, want %d", total(all), want)
		}
	}
	l.Count(source, 60)
	l.sure.written["v"] = 60
	sure(60)
	l.SetStaged("c", 40)
	sure(100)
	l.SetStaged("c", 4000) // more than its size is external
	sure(160)
	l.SetStaged("c", 0)
	l.Share(source, 60)
	l.Share(clone, 60)
	sure(0)
	clone.State = record.Ready
	store.Set(clone)
	l.Count(clone, 60)
	l.sure.written["c"] = 60
	sure(0)
	if found := l.Shared(); found["v"].Bytes != 60 || found["c"].Bytes != 60 {
		t.Errorf("%v", found)
	}
	l.Share(source, 10)
	if found := l.Shared(); found["v"].Bytes != 70 {
		t.Errorf("%v", found)
	}
	l.noteShared(source, 5) // the larger of two walks counts
	sure(0)
	l.noteShared(source, 5)
	sure(55)
	gone := source
	gone.Trash = "OTHER"
	l.Share(gone, 10)
	sure(55)
	if n := record.CopiedBytes(record.SourceOf("", source), source.Bytes, store.CopiesOf(record.SourceOf("", source))); n != 100 {
		t.Errorf("its copies have %d bytes", n)
	}
	store.Forget("c")
	if n := record.CopiedBytes(record.SourceOf("", source), source.Bytes, store.CopiesOf(record.SourceOf("", source))); n != 0 || len(store.Sources()) > 0 {
		t.Errorf("copies that are gone have %d bytes, %v", n, store.Sources())
	}
}
