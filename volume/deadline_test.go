package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// TestHang lets each kind of call that changes the disk hang.
func TestHang(t *testing.T) {
	for _, row := range []struct {
		call, at string
		before   func(*testing.T, *volume.Pool)
		long     bool
	}{
		{call: "create", at: "create.mkdir"},
		{call: "create", at: "record.flush"},
		{call: "create", at: "create.sync"},
		{call: "expand", at: "expand.record"},
		{call: "undo", at: "rollback.rmdir"},
		{call: "delete", at: "delete.rename"},
		{call: "delete", at: "delete.sync"},
		{call: "note orphan", at: "record.sync"},
		{call: "migrate", at: "migrate.begin", before: seenPV},
		{call: "adopt", at: "adopt.record", before: func(t *testing.T, p *volume.Pool) { mkdir(t, filepath.Join(p.Path(), "u")) }},
		{call: "purge", at: "purge.deferred", long: true},
		{call: "purge", at: "purge.remove", long: true, before: func(t *testing.T, p *volume.Pool) {
			create(t, p, "w")
			ok(t, p.Delete("w"))
		}},
	} {
		bubble(t, row.call+" at "+row.at, func(t *testing.T) {
			p, disk := newHanging(t, "frozen")
			ok(t, p.Open())
			create(t, p, "v")
			if row.before != nil {
				row.before(t, p)
			}
			disk.hang(row.at)
			wait := patience
			if row.long {
				wait *= 6
			}
			refused(t, p, row.call, wait+atOnce, everyCall(p)[row.call])
			for name, call := range everyCall(p) {
				refused(t, p, name, atOnce, call)
			}
			if _, known := p.Cached("v"); !known && row.call != "delete" {
				t.Error("what is in memory was forgotten")
			}
			disk.thaw()
			soon(t, "ready", p.Ready)
			if err := everyCall(p)[row.call](); err != nil && !errors.Is(err, volume.ErrMigrating) {
				t.Errorf("again, after the thaw: %v", err)
			}
			_, err := p.Purge(context.Background())
			ok(t, err)
			consistent(t, p)
		})
	}
}

func seenPV(t *testing.T, p *volume.Pool) {
	t.Helper()
	_, err := p.Bind("v", binding("v"))
	ok(t, err)
}

// TestHangManyCallers has more calls than a pool takes: few of them are on the
// disk, all callers are free soon, and nothing is begun for one that has left.
func TestHangManyCallers(t *testing.T) { synctest.Test(t, hangManyCallers) }

func hangManyCallers(t *testing.T) {
	p, disk := newHanging(t, "frozen")
	ok(t, p.Open())
	disk.hang("create.mkdir")
	var all sync.WaitGroup
	begin := time.Now()
	for i := range 100 {
		all.Go(func() {
			if _, err := p.Create(spec(fmt.Sprint("v", i), mib)); !errors.Is(err, volume.ErrNotReady) {
				t.Errorf("create: %v", err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begin); took > 2*patience {
		t.Errorf("the callers waited for %s", took)
	}
	begun := disk.atMost()
	if begun > 16 {
		t.Errorf("%d calls were on the disk", begun)
	}
	disk.thaw()
	soon(t, "ready", p.Ready)
	made, err := p.List()
	ok(t, err)
	if len(made) != begun {
		t.Errorf("%d volumes, and %d calls had begun", len(made), begun)
	}
	consistent(t, p)
}

// TestHangHoldsTheName: what waits for the volume of a call that hangs is
// refused, and does nothing afterwards.
func TestHangHoldsTheName(t *testing.T) { synctest.Test(t, hangHoldsTheName) }

func hangHoldsTheName(t *testing.T) {
	p, disk := newHanging(t, "frozen")
	ok(t, p.Open())
	create(t, p, "v")
	disk.hang("expand.record")
	var all sync.WaitGroup
	all.Go(func() { refused(t, p, "expand", patience+atOnce, everyCall(p)["expand"]) })
	disk.reached(t)
	all.Go(func() { refused(t, p, "delete", patience+atOnce, everyCall(p)["delete"]) })
	all.Go(func() {
		refused(t, p, "pin", patience+atOnce, func() error {
			return p.Pin("v", func(volume.Pinned) error { t.Error("pinned for nobody"); return nil })
		})
	})
	all.Wait()
	disk.thaw()
	soon(t, "ready", p.Ready)
	if v, err := p.Get("v"); err != nil || v.Bytes != 2*gib {
		t.Errorf("%+v, %v, want it grown", v, err)
	}
	consistent(t, p)
}

// TestHangElsewhere: the other pools of a node do not feel it.
func TestHangElsewhere(t *testing.T) { synctest.Test(t, hangElsewhere) }

func hangElsewhere(t *testing.T) {
	p, disk := newHanging(t, "frozen")
	other, _ := newHanging(t, "other")
	all, err := volume.NewPools(p, other)
	ok(t, err)
	ok(t, p.Open())
	ok(t, other.Open())
	create(t, p, "v")
	create(t, other, "here")
	disk.hang("create.mkdir")
	refused(t, p, "create", patience+atOnce, func() error { _, err := all.Create(p, spec("u", mib)); return err })

	begin := time.Now()
	if in, _, err := all.Find("here"); in != other || err != nil {
		t.Errorf("find: %v", err)
	}
	if in, _, err := all.ByPV("pv-here"); in != other || err != nil {
		t.Errorf("find by PV: %v", err)
	}
	_, err = all.Create(other, spec("new", mib))
	ok(t, err)
	_, err = other.Space()
	ok(t, err)
	in, err := all.Delete("here", nil)
	if in != other || err != nil {
		t.Errorf("delete: %v", err)
	}
	if took := time.Since(begin); took > atOnce {
		t.Errorf("the other pool's calls took %s", took)
	}
	refused(t, p, "delete what may be there", atOnce, func() error { _, err := all.Delete("nowhere", nil); return err })
	consistent(t, other)
}

// TestHangAtOpen: a pool that hangs while it is opened is open once the disk
// answers, also without another call.
func TestHangAtOpen(t *testing.T) { synctest.Test(t, hangAtOpen) }

func hangAtOpen(t *testing.T) {
	p, disk := newHanging(t, "frozen")
	disk.hang("open.lock")
	refused(t, p, "open", patience+atOnce, p.Open)
	refused(t, p, "ready", atOnce, p.Ready)
	refused(t, p, "create", atOnce, everyCall(p)["create"])
	disk.thaw()
	soon(t, "an identity", func() error {
		if p.ID() == "" {
			return errors.New("none")
		}
		return nil
	})
	soon(t, "ready", p.Ready)
	create(t, p, "v")
	consistent(t, p)
}

// TestHangAndClose: a pool on which a call hangs keeps its lock, for that call
// may still write, and gives it up once the call has returned.
func TestHangAndClose(t *testing.T) { synctest.Test(t, hangAndClose) }

func hangAndClose(t *testing.T) {
	p, disk := newHanging(t, "frozen")
	ok(t, p.Open())
	disk.hang("create.mkdir")
	refused(t, p, "create", patience+atOnce, everyCall(p)["create"])
	refused(t, p, "close", patience+atOnce, p.Close)

	next := configured(t, volume.Config{Path: p.Path(), Holder: "next"})
	var held *fault.HeldError
	if err := next.Open(); !errors.As(err, &held) {
		t.Errorf("the next process: %v, want that the pool is held", err)
	}
	disk.thaw()
	soon(t, "the lock", next.Open)
	is(t, p.Ready(), volume.ErrNotReady)
	consistent(t, next)
}

// TestHangWhileThePathMoves: a pool that has to be reopened waits for the call
// that hangs in the one before, and refuses meanwhile.
func TestHangWhileThePathMoves(t *testing.T) { synctest.Test(t, hangWhileThePathMoves) }

func hangWhileThePathMoves(t *testing.T) {
	p, disk := newHanging(t, "frozen")
	ok(t, p.Open())
	create(t, p, "v")
	disk.hang("expand.record")
	var all sync.WaitGroup
	all.Go(func() { refused(t, p, "expand", patience+atOnce, everyCall(p)["expand"]) })
	disk.reached(t)
	ok(t, os.Rename(p.Path(), p.Path()+"-away"))
	all.Go(func() { refused(t, p, "get", patience+atOnce, everyCall(p)["get"]) })
	all.Wait()
	ok(t, os.Rename(p.Path()+"-away", p.Path()))
	disk.thaw()
	soon(t, "ready", p.Ready)
	consistent(t, p)
}

// TestLongWorkIsNoHang: a purge that removes file after file, and a pod's mount
// that takes its time, are not what a pool must not answer for. In the bubble, what a busy disk takes
// is no time.
func TestLongWorkIsNoHang(t *testing.T) { synctest.Test(t, longWork) }

func longWork(t *testing.T) {
	slow := false
	p := opened(t, volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Patience: patience, Step: func(name string) {
		if slow && name == "purge.remove" {
			time.Sleep(patience / 5)
		}
	}})
	create(t, p, "v")
	create(t, p, "w")
	for i := range 15 { // three times as long as a call waits
		write(t, filepath.Join(p.Path(), "w", fmt.Sprint(i)), "data")
	}
	ok(t, p.Delete("w"))
	slow = true
	done := make(chan error)
	go func() {
		_, err := p.Purge(context.Background())
		done <- err
	}()
	ok(t, p.Pin("v", func(volume.Pinned) error { time.Sleep(2 * patience); return nil }))
	for range 10 {
		ok(t, p.Ready())
		time.Sleep(patience / 10)
	}
	ok(t, <-done)
	if left := names(t, filepath.Join(p.Path(), trash)); len(left) > 0 {
		t.Errorf("the trash has %q", left)
	}
	consistent(t, p)
}
