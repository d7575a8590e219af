package trash

import (
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestSavedIsBounded(t *testing.T) {
	if got := (Saved{Seconds: 1<<63 - 1, Bytes: 1<<63 - 1}).Bounded(); time.Duration(got.Seconds)*time.Second < time.Hour || got.Bytes*1000 < got.Bytes {
		t.Errorf("%+v", got)
	}
	if got := (Saved{Seconds: -1, Bytes: -1}).Bounded(); got != (Saved{}) {
		t.Errorf("%+v", got)
	}
}

// Bytes are measured twice, as what is not written to the disk has no extents, and then for as long as
// other files share some: they become sure when the others change. Meanwhile the volume can be taken.
func TestIndexMeasures(t *testing.T) {
	var clock time.Duration
	x := NewIndex(func() time.Duration { return clock })
	x.Add(record.Record{Name: "v", Trash: "id"})
	measure := func(want bool, all, sure int64) {
		t.Helper()
		k, due := x.Unmeasured()
		if due != want {
			t.Fatalf("due %v, want %v", due, want)
		}
		if _, again := x.Unmeasured(); again {
			t.Fatal("twice at once")
		}
		if _, ok := x.Get("id"); !ok || len(x.All()) != 1 {
			t.Fatal("it is not kept meanwhile")
		}
		if due {
			x.Measured(k.ID, all, sure)
			if sum, n := x.Bytes(); sum != sure || n != 1 {
				t.Fatalf("%d bytes of %d, want %d", sum, n, sure)
			}
		}
	}
	measure(true, 10, 0)
	measure(false, 0, 0)
	clock += time.Minute
	measure(true, 10, 4)
	clock += 9 * time.Minute
	measure(false, 0, 0)
	clock += time.Minute
	measure(true, 10, 2) // a person shared some
	clock += 10 * time.Minute
	measure(true, 10, 10)
	clock += time.Hour
	measure(false, 0, 0)

	x.Take("id")
	x.Measured("id", 10, 5) // as it comes back
	x.Return("id")
	if sum, _ := x.Bytes(); sum != 10 {
		t.Errorf("%d bytes", sum)
	}
	if k, ok := x.Take("id"); !ok || k.Age != clock {
		t.Errorf("%+v, %v", k, ok)
	}
	if _, ok := x.Take("id"); ok || len(x.All()) != 0 {
		t.Error("taken twice")
	}
}
