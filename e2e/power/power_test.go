package power_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/power"
)

// The power goes at any moment of any call, on every filesystem; a disk has then what was flushed,
// and a part of the rest that a seed chooses. Whatever callers were told is there after the next
// start, and nothing else is.
//
// POWER_MINUTES is how long disks are judged, 8 unless set; POWER_SEED chooses them, the time
// unless set; POWER_FILESYSTEM is the only filesystem. A line for each has what was done. The disks
// of failures are in _artifacts/power.
func TestPower(t *testing.T) {
	seed, program := seedOf(t), build(t)
	deadline := time.Now().Add(minutes(t))
	var wait sync.WaitGroup
	for _, f := range power.Filesystems {
		if only := os.Getenv("POWER_FILESYSTEM"); only != "" && only != f.Name {
			continue
		}
		wait.Go(func() { // beside each other: one waits for the disk of its pool most of the time
			t.Run(f.Name, func(t *testing.T) {
				r := newReplay(t, f, program)
				r.Keep = "../../_artifacts/power"
				if err := r.Run(seed, deadline); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				report(t, r, seed)
				if r.Result.Disks == 0 {
					t.Error("no disk was judged")
				}
			})
		})
	}
	wait.Wait()
}

// done has what was done on each filesystem.
var done sync.Map

// TestMain prints what was done once all tests have ended: prove shows such output of tests that
// pass, too.
func TestMain(m *testing.M) {
	code := m.Run()
	done.Range(func(filesystem, text any) bool {
		fmt.Printf("power: %s: %s\n", filesystem, text)
		return true
	})
	os.Exit(code)
}

func report(t *testing.T, r *power.Replay, seed uint64) {
	t.Helper()
	got := r.Result
	done.Store(r.Filesystem.Name, fmt.Sprintf("seed %d, %d logs of %d calls, %d disks, %d of them of a cut in a recovery, %d early returns of the kernel's, %d failures",
		seed, got.Logs, got.Calls, got.Disks, got.Recoveries, got.Early, len(got.Failures)))
	for _, f := range got.Failures {
		t.Error(f)
	}
	// The kernel's own fault is rare: of 2,905 calls five were hit.
	if got.Early*50 > got.Disks {
		t.Errorf("%d of %d disks are blamed on the kernel", got.Early, got.Disks)
	}
}

func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("POWER_SEED")
	if text == "" {
		return uint64(rand.Uint32())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("POWER_SEED=%q; want a number", text)
	}
	return seed
}

func minutes(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("POWER_MINUTES")
	if text == "" {
		text = "8"
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		t.Fatalf("POWER_MINUTES=%q; want a number above zero", text)
	}
	return time.Duration(n * float64(time.Minute))
}

// build returns the test program of package volume.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "volume.test")
	cmd := exec.Command("go", "test", "-c", "-tags", "power", "-o", program, "./volume")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return program
}

func newReplay(t *testing.T, f power.Filesystem, program string) *power.Replay {
	t.Helper()
	d, err := f.NewDisk()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := power.NewSubject(program, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the disk
		if err := s.Close(); err != nil {
			t.Errorf("the process with the pool: %v", err)
		}
	})
	return &power.Replay{Filesystem: f, Disk: d, Subject: s, Cuts: 150}
}

// A disk that ignores every flush after the first start loses what callers were told, and that is
// noticed.
func TestNoFlushIsNoticed(t *testing.T) {
	r := newReplay(t, power.Filesystems[0], build(t))
	r.Edit = func(log []power.Event) (ignored []power.Event) {
		started := false
		for _, e := range log {
			if started && e.Kind == power.Flush {
				continue
			}
			started = started || e.Kind == power.Told
			ignored = append(ignored, e)
		}
		return ignored
	}
	if err := r.Run(seedOf(t), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if len(r.Result.Failures) == 0 {
		t.Errorf("no failure on %d disks", r.Result.Disks)
	}
}
