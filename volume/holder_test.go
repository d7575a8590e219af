package volume_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// holdEnv makes the test binary a process that owns a pool until its standard
// input ends.
const holdEnv = "TEST_HOLD_POOL"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		hold(path)
		return
	}
	if args := os.Getenv(dieEnv); args != "" {
		if err := die(args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(noFlagsEnv) != "" {
		if err := refuseRenameFlags(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func hold(path string) {
	p, err := volume.New(volume.Config{Path: path, Holder: "the other agent"})
	if err == nil {
		err = p.Open()
	}
	fmt.Println("open:", err)
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func TestTwoProcesses(t *testing.T) {
	path := founded(t)
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holdEnv+"="+path)
	in, err := other.StdinPipe()
	ok(t, err)
	out, err := other.StdoutPipe()
	ok(t, err)
	ok(t, other.Start())
	defer other.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open: <nil>\n" {
		t.Fatal(line, err)
	}

	p := configured(t, volume.Config{Path: path, Holder: "us"})
	err = p.Open()
	want := fmt.Sprintf("the other agent, pid %d, since ", other.Process.Pid)
	if is(t, err, volume.ErrNotReady); !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	is(t, p.Ready(), volume.ErrNotReady)
	r, err := inspect.Read(path)
	if err != nil || !r.Pool.Held || !strings.HasPrefix(r.Pool.Holder, want) {
		t.Errorf("inspect: %+v, %v", r.Pool, err)
	}

	in.Close()
	ok(t, other.Wait())
	ok(t, p.Ready()) // by itself
	if r, err = inspect.Read(path); err != nil || !r.Pool.Held || !strings.HasPrefix(r.Pool.Holder, "us, pid ") {
		t.Errorf("inspect: %+v, %v", r.Pool, err)
	}
}

func TestTwoPoolsOfOneProcess(t *testing.T) {
	p := newPool(t)
	q := configured(t, volume.Config{Path: p.Path()})
	is(t, q.Open(), volume.ErrNotReady)
	ok(t, p.Close())
	create(t, q, "v")
}

// Of two paths of one directory, one is served. The error of the other one names it: no other
// process has the pool.
func TestTwoPathsOfOneDirectory(t *testing.T) {
	p := newPool(t)
	link := p.Path() + "-link"
	ok(t, os.Symlink(p.Path(), link))
	first := configured(t, volume.Config{Name: "first", Path: p.Path()})
	second := configured(t, volume.Config{Name: "second", Path: link})
	other := configured(t, volume.Config{Name: "other", Path: t.TempDir() + "/other"})
	ok(t, p.Close())
	ok(t, first.Open())
	held := new(fault.HeldError)
	if err := second.Open(); !errors.As(err, &held) {
		t.Errorf("pools that were not joined: %v", err)
	}
	pools, err := volume.NewPools(first, second, other)
	ok(t, err)
	pools.Open()
	ok(t, other.Ready())
	for _, err := range []error{second.Ready(), func() error { _, err := second.Get("v"); return err }()} {
		is(t, err, volume.ErrNotReady)
		if errors.As(err, &held) || !strings.Contains(err.Error(), "pool first in "+first.Path()) {
			t.Errorf("%v", err)
		}
	}
	ok(t, first.Close())
	ok(t, second.Ready()) // by itself
}
