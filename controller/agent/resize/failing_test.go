package resize

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/volume"
)

func TestFailingWaitsLonger(t *testing.T) {
	f := newFailing()
	at := failure{uid: "1", requested: 20}
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		if got := f.add("ns/data", at); got != want {
			t.Errorf("pause %s, want %s", got, want)
		}
	}
	if !f.waits("ns/data", "1", 20) || f.waits("ns/data", "1", 15) || f.waits("ns/data", "2", 20) || f.waits("ns/other", "1", 20) {
		t.Error("not just the same claim with the same request waits")
	}
	at.requested = 15
	if got := f.add("ns/data", at); got != 30*time.Second {
		t.Errorf("pause %s after another request", got)
	}
	if f.drop("ns/data"); f.waits("ns/data", "1", 15) {
		t.Error("waits though it is over")
	}
}

// What can become possible by itself is tried as soon as it is, and nothing else.
func TestFailingPossible(t *testing.T) {
	open := func(name string) *volume.Pool {
		p, err := volume.New(volume.Config{Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ready, away := open("ready"), open("away")
	if err := ready.Open(); err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	f := newFailing()
	for key, at := range map[string]failure{
		"fits": {pool: ready, missing: 1}, "too much": {pool: ready, missing: math.MaxInt64}, "unknown": {pool: away, missing: 1},
		"back": {pool: ready, notReady: true}, "away": {pool: away, notReady: true}, "other": {pool: ready},
	} {
		f.add(key, at)
	}
	keys := f.possible()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"back", "fits"}) {
		t.Errorf("%q are possible", keys)
	}
	for _, key := range []string{"fits", "back", "too much", "unknown", "away", "other"} {
		if waits := f.waits(key, "", 0); waits == slices.Contains(keys, key) {
			t.Errorf("%s: waits %v", key, waits)
		}
	}
}
