package volume_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
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
