package volume_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// What a start cannot finish because no record can be written, as on a full disk, is finished
// later, without a call for the volume.
func TestSettle(t *testing.T) {
	for _, row := range []struct {
		state record.State
		step  string // from which on the record cannot be renamed
		after int    // volumes once it can
	}{
		{state: record.Creating, step: "recover.ready", after: 1},
		{state: record.Deleting, step: "delete.move"},
	} {
		t.Run(string(row.state), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pool")
			ok(t, opened(t, volume.Config{Path: path}).Close())
			r := record.Record{Version: 1, Name: "v", Bytes: gib, PV: "pv-v", Owner: record.Owner{UID: "uid-v"}, State: row.state}
			if row.state == record.Deleting {
				r.Trash = "GONE"
			}
			recordFile(t, path, r)
			mkdir(t, filepath.Join(path, "v"))
			// Neither a rename over this nor one to it succeeds.
			inTheWay := map[record.State]string{record.Creating: records + "/v", record.Deleting: trash + "/GONE.json"}[row.state]
			aside, fail := filepath.Join(t.TempDir(), "record"), true
			p := opened(t, volume.Config{Path: path, Step: func(name string) {
				if name == row.step && fail {
					_ = os.Rename(filepath.Join(path, inTheWay), aside) // there may be none
					mkdir(t, filepath.Join(path, inTheWay, "x"))
				}
			}})
			fail = false
			if len(p.Warnings()) == 0 {
				t.Fatal("the start says nothing of what it could not finish")
			}
			ok(t, os.RemoveAll(filepath.Join(path, inTheWay)))
			_ = os.Rename(aside, filepath.Join(path, inTheWay))

			ok(t, p.Recover())
			all, err := p.List()
			ok(t, err)
			if len(all) != row.after {
				t.Errorf("volumes %+v, want %d", all, row.after)
			}
			ok(t, p.Recover()) // nothing is left to do
			consistent(t, p)
		})
	}
}

// What a create could not take back is no leak until the next start.
func TestSettleStaging(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	left, inPlace := filepath.Join(path, staging, "v"), filepath.Join(path, "v")
	when, at := "create.rename", func() {
		mkdir(t, inPlace)
		mkdir(t, filepath.Join(left, "x"))
	}
	p := opened(t, volume.Config{Path: path, Step: func(step string) {
		if step == when {
			at()
		}
	}})
	_, err := p.Create(spec("v", gib))
	is(t, err, volume.ErrConflict)
	ok(t, p.Recover())
	if !there(filepath.Join(left, "x")) {
		t.Error("what is not empty is not ours")
	}
	ok(t, os.Remove(filepath.Join(left, "x")))
	ok(t, p.Recover())
	ok(t, os.Remove(inPlace))
	consistent(t, p)

	// A volume that is being created is not unfinished: Recover waits for the call.
	settled := make(chan error, 1)
	when, at = "create.mode", func() {
		go func() { settled <- p.Recover() }()
		time.Sleep(50 * time.Millisecond) // in which it would do the wrong thing
	}
	create(t, p, "v")
	ok(t, <-settled)
	consistent(t, p)
}
