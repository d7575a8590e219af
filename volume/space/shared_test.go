package space

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestShared has volumes whose files share blocks: what two walks found is subtracted from the
// counter, also in the next process, and not from that of another volume with the name.
func TestShared(t *testing.T) {
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := record.Record{Name: "one", State: record.Bound, Bytes: 400, Trash: "t", Created: made}
	var l *Ledger
	start := func(r record.Record) {
		l = NewLedger(record.NewStore(func(name string) { l.Forget(name) }), 0, 1)
		l.records.Set(r)
		l.Count(r, 300)
		l.sure.written["one"] = 300
	}
	walk := func(bytes int64, err error) error {
		return l.walkShared(t.Context(), func(context.Context, string) (int64, error) { return bytes, err })
	}
	used := func(want int64, when string) {
		t.Helper()
		if all, _ := l.using(); total(all) != want {
			t.Errorf("%s: %d are surely in use, want %d", when, total(all), want)
		}
	}
	start(one)
	used(300, "never walked")
	if err := walk(100, nil); err != nil {
		t.Fatal(err)
	}
	used(200, "walked")
	_ = walk(250, nil)
	used(50, "more is shared")
	_ = walk(0, nil)
	used(50, "a walk may have missed it")
	if err := walk(0, unix.EIO); err == nil {
		t.Error("no error")
	}
	if err := walk(0, unix.ENOENT); err != nil {
		t.Error(err)
	}
	used(50, "it could not be walked")
	_ = walk(350, nil)
	used(0, "more is shared than is counted")
	kept := l.Shared()
	start(one)
	used(300, "a restart that knows nothing")
	l.SetShared(kept)
	used(0, "a restart")
	l.Reset()
	l.Count(one, 300)
	l.sure.written["one"] = 300
	used(0, "another pool joined")
	_, _ = walk(0, nil), walk(0, nil)
	used(300, "nothing is shared any more")
	if len(l.Shared()) > 0 {
		t.Errorf("kept: %v", l.Shared())
	}
	again := one
	again.Created = made.Add(time.Hour)
	start(again)
	l.SetShared(kept)
	used(300, "another volume of the name")
	_ = walk(100, nil)
	l.Forget("one")
	if len(l.Shared()) > 0 {
		t.Errorf("of a volume that is gone: %v", l.Shared())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start(one)
	if err := l.walkShared(ctx, func(context.Context, string) (int64, error) { return 7, nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	used(300, "the walk was ended")
}
