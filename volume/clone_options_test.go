package volume

import (
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/tree"
)

// What may change while a source is copied, what must share its blocks, and how many pieces a file in use
// may be in, follow from how the source is used and what the class permits.
func TestCopyOptions(t *testing.T) {
	for name, row := range map[string]struct {
		job  *cloneJob
		want tree.CopyOptions
	}{
		"not in use":                {&cloneJob{exclusive: true}, tree.CopyOptions{Share: true}},
		"not in use, by bytes":      {&cloneJob{exclusive: true, spec: CloneSpec{CopyBytes: true}}, tree.CopyOptions{}},
		"in use":                    {&cloneJob{oneFile: true}, tree.CopyOptions{Share: true, Changes: tree.ChangesOfOneFile, Extents: tree.MaxExtents}},
		"in use, bytes permitted":   {&cloneJob{oneFile: true, spec: CloneSpec{CopyBytes: true}}, tree.CopyOptions{Share: true, Changes: tree.ChangesOfOneFile, Extents: tree.MaxExtents}},
		"in use, of some moments":   {&cloneJob{}, tree.CopyOptions{Share: true, Changes: tree.ChangesOfFiles}},
		"of some moments, by bytes": {&cloneJob{spec: CloneSpec{CopyBytes: true}}, tree.CopyOptions{Changes: tree.ChangesOfFiles}},
	} {
		got := (&Pool{}).copyOptions(row.job, nil)
		if got.Share != row.want.Share || got.Changes != row.want.Changes || got.Extents != row.want.Extents {
			t.Errorf("%s: share %v, changes %v, %d extents; want %+v", name, got.Share, got.Changes, got.Extents, row.want)
		}
	}
}

// One copy of a pool writes at a time. Another one waits for a turn, not for the end, and says so.
func TestCopiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, begin := bounded.OneAtATime(), time.Now()
		type stretch struct {
			job      int
			from, to time.Duration
		}
		all, done := make(chan stretch, 1000), make(chan bool)
		var jobs [2]cloneJob
		for i := range jobs {
			go func() {
				turn := &copyTurn{job: &jobs[i], turns: turns, dir: pooldir.New(pooldir.Config{})}
				time.Sleep(time.Duration(i) * time.Second)
				if err := turn.take(t.Context()); err != nil {
					t.Error(err)
				}
				for range 15 {
					from := time.Since(begin)
					time.Sleep(time.Second)
					all <- stretch{i, from, time.Since(begin)}
					if err := turn.wrote(t.Context(), 1<<20); err != nil {
						t.Error(err)
					}
				}
				turn.give()
				done <- true
			}()
		}
		time.Sleep(3 * time.Second)
		if jobs[0].show().Waits || !jobs[1].show().Waits {
			t.Error("the second does not say that it waits")
		}
		<-done
		<-done
		close(all)
		last, changes := stretch{job: 0}, 0
		for s := range all {
			if s.from < last.to {
				t.Errorf("%+v begins before %+v ends", s, last)
			}
			if s.job != last.job {
				changes++
			}
			last = s
		}
		if changes < 3 {
			t.Errorf("%d changes of turn: the second waited for the end of the first", changes)
		}
	})
}
