//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// cutOff returns the disk as it was when the power went: what the filesystem did
// not write to its loop device is not in the image.
func cutOff(t *testing.T, image string) string {
	t.Helper()
	after := filepath.Join(t.TempDir(), "after.img")
	testdisk.Run(t, "cp", "--sparse=always", image, after)
	return after
}

// The power goes right after each call: the result that its caller got is on the disk.
// e2e/vm does this to many calls at once.
func TestDiskPowerAfterACall(t *testing.T) {
	calls := []op{createV, {do: "undo", name: "v"}, createV, expandV, {do: "note orphan", name: "v"}, bindV,
		{do: "reown", name: "v"}, beginV, cutOverV, {do: "finish migration", name: "v"}, deleteV, createV, purgeAll, deleteV, purgeAll,
		keepV, fillV, boundV, deleteV, undeleteV, claimV, deleteV, purgeAll, undeleteV, deleteV, {do: "drop", name: "v"}, purgeAll,
		keepV, fillV, boundV, deleteV, {do: "drop and purge", name: "v"}}
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			image, dir := testdisk.Image(t, kind), t.TempDir()
			testdisk.Attach(t, image, dir)
			w := &world{newAccount(), filepath.Join(dir, "pool"), record.QuotaBestEffort}
			p := opened(t, keeping(volume.Config{Path: w.path, EnableBtrfsQuota: true})) // with which volumes are subvolumes
			var images []string
			var accounts []*account
			for _, o := range calls {
				testdisk.Sync(t, dir) // so that only what the call itself flushes counts
				_, err := w.do(p, o)
				images, accounts = append(images, cutOff(t, image)), append(accounts, w.clone())
				ok(t, err)
				accounts[len(accounts)-1].powerGoes(o)
			}
			ok(t, p.Close())
			testdisk.Detach(t, dir)
			for i, image := range images {
				holds(t, calls[i], image, dir, &world{accounts[i], w.path, w.limit})
			}
		})
	}
}

// holds starts on the disk of a call whose power went.
func holds(t *testing.T, o op, image, dir string, w *world) {
	t.Helper()
	testdisk.Attach(t, image, dir)
	defer testdisk.Detach(t, dir)
	p := opened(t, keeping(volume.Config{Path: w.path}))
	defer p.Close()
	for range 2 { // before the trash is emptied, and after
		for _, f := range append(w.held(p), unsound(p)...) {
			t.Errorf("after %v: %s: %s", o, f.kind, f.text)
		}
		for _, r := range p.SetAside() { // an administrator decides
			ok(t, p.Delete(r.Name))
		}
		purge(t, p)
	}
}

// The power goes while a new record is on its way and its name is on the disk
// already, or when it is there and the directory is not: nothing is left of the
// volume, and nothing is called damaged.
func TestDiskPowerInACreate(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		for step, whole := range map[string]bool{"record.flush": false, "create.rename": true} {
			t.Run(kind+"/"+step, func(t *testing.T) { powerAt(t, kind, step, whole) })
		}
	}
}

// powerAt has the power go at that step of a create, when the record is whole or empty.
func powerAt(t *testing.T, kind, cut string, whole bool) {
	t.Helper()
	image, dir, after := testdisk.Image(t, kind), t.TempDir(), ""
	testdisk.Attach(t, image, dir)
	path := filepath.Join(dir, "pool")
	p := opened(t, volume.Config{Path: path, EnableBtrfsQuota: true, Step: func(step string) {
		if step != cut {
			return
		}
		if !whole {
			flushed(t, filepath.Join(path, records))
		}
		after = cutOff(t, image)
	}})
	_, err := p.Create(spec("v", mib))
	ok(t, err)
	ok(t, p.Close())
	testdisk.Detach(t, dir)

	testdisk.Attach(t, after, dir)
	defer testdisk.Detach(t, dir)
	if data, err := os.ReadFile(filepath.Join(path, records, "v")); err != nil || len(data) > 0 != whole {
		t.Fatalf("the record has %d bytes, %v: it proves nothing", len(data), err)
	}
	p = opened(t, volume.Config{Path: path})
	defer p.Close()
	if damaged := p.Damaged(); len(damaged) > 0 || there(filepath.Join(path, "v")) {
		t.Errorf("damaged %q", damaged)
	}
	consistent(t, p)
	_, err = p.Create(spec("v", mib))
	ok(t, err)
}

// flushed flushes a file or directory.
func flushed(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	ok(t, err)
	ok(t, f.Sync())
	ok(t, f.Close())
}

// A person puts a directory back after its volume was deleted, and the power goes
// before anything else is flushed: it is not taken for the volume.
func TestDiskPutBackAfterDelete(t *testing.T) {
	for _, kind := range testdisk.Kinds() {
		t.Run(kind, func(t *testing.T) {
			image, dir := testdisk.Image(t, kind), t.TempDir()
			testdisk.Attach(t, image, dir)
			path := filepath.Join(dir, "pool")
			p := opened(t, volume.Config{Path: path, Step: func(step string) {
				if step == "delete.move" {
					testdisk.Sync(t, dir) // as others may; what comes after is not on its way with what came before
				}
			}})
			_, err := p.Create(spec("v", mib))
			ok(t, err)
			_, err = p.Bind("v", binding("v"))
			ok(t, err)
			ok(t, os.Remove(filepath.Join(path, "v")))
			ok(t, p.Delete("v"))
			write(t, filepath.Join(path, "v", "data"), "x")
			for _, name := range []string{"v/data", "v", "."} {
				flushed(t, filepath.Join(path, name))
			}
			after := cutOff(t, image)
			ok(t, p.Close())
			testdisk.Detach(t, dir)

			testdisk.Attach(t, after, dir)
			p = opened(t, volume.Config{Path: path})
			purge(t, p)
			if !there(filepath.Join(path, "v", "data")) {
				t.Errorf("it is gone; records %v", names(t, filepath.Join(path, records)))
			}
		})
	}
}
