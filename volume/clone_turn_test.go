package volume

import (
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// A copy of bytes leaves half of the time to others, and keeps to the rate of the pool.
func TestCopyRests(t *testing.T) {
	for _, row := range []struct {
		name        string
		rate        int64         // bytes a second
		piece, want time.Duration // how long each of 100 pieces of 1 MiB takes, and the sum
	}{
		{"pieces are quick", 0, 5 * time.Millisecond, time.Second},
		{"pieces are slow", 0, 200 * time.Millisecond, 40 * time.Second},
		{"the rate allows less", 1 << 20, 5 * time.Millisecond, 100 * time.Second},
		{"the rate allows more", 1 << 30, 5 * time.Millisecond, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turn := &copyTurn{job: &cloneJob{}, turns: make(bounded.Turns, 1), dir: pooldir.New(pooldir.Config{}), rate: row.rate}
				if err := turn.take(t.Context()); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				for range 100 {
					time.Sleep(row.piece)
					if err := turn.wrote(t.Context(), 1<<20); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(begin); took < row.want*95/100 || took > row.want*105/100 {
					t.Errorf("took %s, want %s", took, row.want)
				}
			})
		})
	}
}
