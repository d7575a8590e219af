//go:build disk || vm

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/limit"
)

// old makes a directory as an older provisioner's pods would have left it, of
// some three MiB, and adopts it.
func old(p *volume.Pool, name string, bytes int64) error {
	dir := filepath.Join(p.Path(), name)
	for _, sub := range []string{"a/b/c", "wal", "empty"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, file := range []string{"top", "a/b/c/deep", "wal/1"} {
		if err := os.WriteFile(filepath.Join(dir, file), make([]byte, mib), 0o600); err != nil {
			return err
		}
	}
	_, err := p.Adopt(spec(name, bytes))
	return errors.Join(err, os.Link(filepath.Join(dir, "top"), filepath.Join(dir, "a/again")),
		os.Symlink("/", filepath.Join(dir, "a/link")), unix.Mkfifo(filepath.Join(dir, "a/pipe"), 0o600))
}

// handingDown returns how many directories of a volume hand down an ID, and how
// many do not.
func handingDown(t *testing.T, path string) (yes, no int) {
	t.Helper()
	ok(t, filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if attr(t, path).Flags&limit.ProjectInherit != 0 {
			yes++
		} else {
			no++
		}
		return nil
	}))
	return yes, no
}

func attr(t *testing.T, path string) limit.Attr {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	ok(t, err)
	defer unix.Close(fd)
	a, err := limit.GetAttr(fd)
	ok(t, err)
	return a
}

// lives renames and links old files and new ones to and fro, as a database
// does with its log: none of it may be refused.
func lives(t *testing.T, path string) {
	t.Helper()
	for _, move := range [][2]string{{"wal/1", "wal/2"}, {"wal/2", "a/b/1"}, {"a/b/1", "moved"}, {"moved", "wal/1"}, {"a/b/c", "c"}, {"c", "a/b/c"}} {
		ok(t, os.Rename(filepath.Join(path, move[0]), filepath.Join(path, move[1])))
	}
	for _, dir := range []string{"", "wal", "a/b/c"} {
		write(t, filepath.Join(path, dir, "new"), "x")
		ok(t, os.Rename(filepath.Join(path, dir, "new"), filepath.Join(path, "a/new")))
		ok(t, os.Link(filepath.Join(path, "a/new"), filepath.Join(path, dir, "linked")))
		ok(t, os.Remove(filepath.Join(path, dir, "linked")))
	}
}

func limitAdopted(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	ok(t, old(p, "v", 8*mib))
	path := filepath.Join(p.Path(), "v")
	if !d.inodes { // btrfs
		_, err := p.LimitAdopted(t.Context(), "v")
		is(t, err, volume.ErrNoLimits)
		if !strings.Contains(err.Error(), "subvolume") {
			t.Error(err)
		}
		ok(t, p.Delete("v"))
		purge(t, p)
		return
	}
	v, err := p.LimitAdopted(t.Context(), "v")
	if err != nil || !v.Limited || v.Unlimited != "" || v.PendingID != 0 || v.Switching {
		t.Fatalf("%+v, %v", v, err)
	}
	asRecorded(t, p)
	if _, no := handingDown(t, path); no > 0 {
		t.Errorf("%d directories do not hand down the ID", no)
	}
	lives(t, path)
	if n, err := pour(t, path+"/more", 64*mib); !errors.Is(err, d.full) || n > 5*mib || n < 4*mib {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if u, err := p.Usage("v"); err != nil || u.Bytes < 7*mib || u.Inodes < 11 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if again, err := p.LimitAdopted(t.Context(), "v"); err != nil || again.LimitID != v.LimitID {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = p.Expand("v", 16*mib)
	ok(t, err)
	ok(t, p.Close())
	p = opened(t, volume.Config{Path: p.Path()})
	consistent(t, p)
	asRecorded(t, p)
	ok(t, p.Delete("v"))
	purge(t, p)
	limitAdoptedRefused(t, d)
	limitAdoptedPublished(t, d)
}

// What cannot get a limit works on as before.
func limitAdoptedRefused(t *testing.T, d quotaDisk) {
	p := d.pool(t)
	ok(t, old(p, "full", mib))
	ok(t, old(p, "shared", 8*mib))
	ok(t, old(p, "unknown", 0))
	other, err := p.Create(limited("other", 4*mib))
	ok(t, err)
	write(t, other.Path+"/file", "other's")
	ok(t, os.Link(other.Path+"/file", p.Path()+"/shared/a/b/file"))
	for name, want := range map[string]error{"full": volume.ErrOverfull, "shared": volume.ErrConflict,
		"unknown": volume.ErrInvalid, "other": nil, "none": volume.ErrNotFound} {
		for range 2 {
			_, err := p.LimitAdopted(t.Context(), name)
			if want != nil {
				is(t, err, want)
			} else if err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range []string{"full", "shared"} {
		v, err := p.Get(name)
		if yes, _ := handingDown(t, v.Path); err != nil || v.Limited || v.LimitID != 0 || yes > 0 {
			t.Errorf("%+v, %v; %d hand down", v, err, yes)
		}
		lives(t, v.Path)
	}
	if a := attr(t, other.Path+"/file"); uint64(a.Project) != other.LimitID {
		t.Errorf("the other volume's file has the ID %d", a.Project)
	}
	_, err = p.Expand("full", 8*mib)
	ok(t, err)
	ok(t, os.Remove(p.Path()+"/shared/a/b/file"))
	ok(t, p.Delete("unknown"))
	for _, name := range []string{"full", "shared"} {
		_, err := p.LimitAdopted(t.Context(), name)
		ok(t, err)
		lives(t, p.Path()+"/"+name)
	}
	asRecorded(t, p)
	for _, name := range []string{"full", "shared", "other"} {
		ok(t, p.Delete(name))
	}
	purge(t, p)
}

// A pod that wants the volume gets it, at whatever moment.
func limitAdoptedPublished(t *testing.T, d quotaDisk) {
	for _, at := range []string{"adopt.claim", "adopt.mark", "adopt.switch", "adopt.inherit"} {
		var p *volume.Pool
		pinned := make(chan error, 1)
		once := false
		p = opened(t, volume.Config{Path: d.newPath(t), Step: func(step string) {
			if step != at || once {
				return
			}
			once = true
			go func() {
				pinned <- p.Pin("v", func(v volume.Pinned) error {
					if yes, _ := handingDown(t, v.Path); yes > 0 && v.LimitID == 0 {
						return fmt.Errorf("%d directories hand down an ID", yes)
					}
					lives(t, v.Path)
					return unix.Mount(v.Path, v.Path+"/empty", "", unix.MS_BIND, "")
				})
			}()
			time.Sleep(100 * time.Millisecond) // so that it is heard; else the work is done before
		}})
		ok(t, old(p, "v", 8*mib))
		path := filepath.Join(p.Path(), "v")
		_, err := p.LimitAdopted(t.Context(), "v")
		ok(t, <-pinned)
		if !errors.Is(err, volume.ErrInUse) {
			t.Errorf("at %s: %v", at, err)
		}
		_, err = p.LimitAdopted(t.Context(), "v")
		is(t, err, volume.ErrInUse)
		ok(t, unix.Unmount(path+"/empty", 0))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.LimitAdopted(ctx, "v"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		_, err = p.LimitAdopted(t.Context(), "v")
		ok(t, err)
		asRecorded(t, p)
		lives(t, path)
		ok(t, p.Delete("v"))
		purge(t, p)
	}
}

// Killed before every change, and what takes the half-made back likewise:
// whoever has the volume then can work in it, and the next call ends the work.
func limitAdoptedKilled(t *testing.T, d quotaDisk) {
	if !d.inodes {
		return
	}
	seen := map[string]bool{}
	limiting := func(p *volume.Pool) error {
		_, err := p.LimitAdopted(t.Context(), "v")
		return err
	}
	publish := func(p *volume.Pool) error { return p.Pin("v", func(volume.Pinned) error { return nil }) }
	path := d.newPath(t)
	run(t, path, 0, func(p *volume.Pool) error { return old(p, "v", 8*mib) })
	all, _ := run(t, path, 0, limiting)
	slow := d.method == limit.MethodExt4 // each flush takes long
	for n, died := 1, true; died; n++ {
		// One of the steps of a name does there.
		if slow && n <= len(all) && slices.Contains(all[:n-1], all[n-1]) {
			continue
		}
		for m, again := 1, true; again; m++ {
			path := d.newPath(t)
			run(t, path, 0, func(p *volume.Pool) error { return old(p, "v", 8*mib) })
			var steps, more []string
			steps, died = run(t, path, n, limiting)
			if died && steps[len(steps)-1] == "adopt.limit" { // all of it is to be taken back
				more, again = run(t, path, m, publish)
				again = again && (!slow || m <= 3)
			} else {
				again = false
			}
			for _, step := range append(steps, more...) {
				seen[step] = true
			}
			p := opened(t, volume.Config{Path: path})
			ok(t, publish(p))
			v, err := p.Get("v")
			ok(t, err)
			if yes, no := handingDown(t, v.Path); v.Switching || v.LimitID == 0 && yes > 0 || v.LimitID != 0 && no > 0 {
				t.Fatalf("killed at %d and %d: %+v; %d directories hand down the ID, %d do not", n, m, v, yes, no)
			}
			lives(t, v.Path)
			ok(t, limiting(p))
			consistent(t, p)
			asRecorded(t, p)
			ok(t, p.Close())
			if t.Failed() {
				t.Fatalf("killed at %d and %d", n, m)
			}
		}
	}
	for _, step := range []string{"adopt.pending", "adopt.claim", "adopt.mark", "adopt.switch", "adopt.inherit", "adopt.back", "adopt.undone",
		"adopt.limit", "limit.set"} {
		if !seen[step] && (!slow || step != "adopt.undone") {
			t.Errorf("nothing was killed at %s: %v", step, seen)
		}
	}
	d.swept(t)
}

// killedAt is the panic of a pool whose process died right before a step.
type killedAt struct{ step string }

// run opens the pool at path and calls do, killing it at the n-th step that do
// takes; 0 kills nothing. It returns the steps it saw.
func run(t *testing.T, path string, n int, do func(*volume.Pool) error) (steps []string, died bool) {
	t.Helper()
	armed := false
	p, err := volume.New(volume.Config{Path: path, Step: func(step string) {
		if !armed {
			return
		}
		if steps = append(steps, step); len(steps) == n {
			panic(killedAt{step})
		}
	}})
	ok(t, err)
	defer p.Close()
	defer func() {
		r := recover()
		if _, died = r.(killedAt); r != nil && !died {
			panic(r)
		}
	}()
	ok(t, p.Open())
	armed = true
	ok(t, do(p))
	return steps, false
}
