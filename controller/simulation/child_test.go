package simulation_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// child is a process that makes runs.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	log  *os.File
	runs int
}

// run makes one run. A process whose clock stands still has printed the stacks of its goroutines.
func (c *child) run(r simulation.Run) (result simulation.Result) {
	if c.cmd == nil {
		c.start()
	}
	line, _ := json.Marshal(r)
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
	for c.out.Scan() {
		if text, ok := strings.CutPrefix(c.out.Text(), "result "); ok {
			if err := json.Unmarshal([]byte(text), &result); err != nil {
				c.t.Fatal(err)
			}
			if c.runs++; c.runs >= runsOfChild {
				c.end()
			}
			return result
		}
	}
	stacks, _ := os.ReadFile(c.log.Name())
	kept := filepath.Join(os.TempDir(), fmt.Sprintf("simulate-%d-%d.txt", os.Getpid(), r.Seed))
	_ = os.WriteFile(kept, stacks, 0o600)
	c.end()
	v := simulation.Violation{Rule: "CLOCK", Kind: "stuck", Text: "the clock stands still: see " + kept}
	for _, request := range regexp.MustCompile(`(?m)^\S+ \w+ \S+ \d+$`).FindAllString(string(stacks), 20) {
		v.Text += "; " + request // of two seconds
	}
	if head := regexp.MustCompile(`(?m)^(panic|fatal error): .*`).FindString(string(stacks)); head != "" {
		v = simulation.Violation{Rule: "PANICS", Kind: head, Text: head + ": see " + kept}
	}
	result.Violations = []simulation.Violation{v}
	return result
}

func (c *child) start() {
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd, c.runs = exec.Command(exe, "-test.run=^TestChild$", "-test.timeout=0"), 0
	c.cmd.Env = append(os.Environ(), varChild+"=1", "GOMAXPROCS=2", "GOGC=200")
	if path := os.Getenv("SIMULATE_LOG"); path != "" {
		c.log, err = os.Create(path)
	} else {
		c.log, err = os.CreateTemp(c.t.TempDir(), "log")
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Stderr = c.log
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 16<<20)
}

func (c *child) end() {
	if c.cmd != nil {
		_ = c.in.Close()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// TestChild makes the runs that its parent asks for, one after another. The bubble of each is left
// behind, because some goroutines of the provisioner library never end.
func TestChild(t *testing.T) {
	if os.Getenv(varChild) == "" {
		return
	}
	if os.Getenv("SIMULATE_LOG") == "" {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	}
	log.SetLogger(logr.Discard())
	go watchClock()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var run simulation.Run
		if err := json.Unmarshal(in.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp("", "simulate")
		if err != nil {
			t.Fatal(err)
		}
		running.Store(true)
		out, hold := make(chan simulation.Result), make(chan bool) // made here, so that no bubble owns them
		go synctest.Test(t, func(*testing.T) {
			out <- run.Simulate(dir)
			<-hold
		})
		line, _ := json.Marshal(<-out)
		running.Store(false)
		fmt.Printf("result %s\n", line)
		_ = os.RemoveAll(dir)
	}
	os.Exit(0) // bubbles that do not end are no failure
}

// running is set while a run is made.
var running atomic.Bool

// watchClock ends the process if no step ends for a while: a goroutine of the bubble waits for
// something outside, such as a lock that is held over a request, or a loop has no pause.
func watchClock() {
	last, since, work := int64(-1), time.Now(), used()
	for ; ; time.Sleep(time.Second) {
		now := simulation.Progress.Load()
		if now != last || !running.Load() {
			last, since, work = now, time.Now(), used()
		}
		if time.Since(since) > stuckAfter || used()-work > stuckWork {
			stacks := make([]byte, 16<<20)
			fmt.Fprintf(os.Stderr, "no minute passes\n%s\n%s\n", simulation.Stuck(), stacks[:runtime.Stack(stacks, true)])
			os.Exit(3)
		}
	}
}

// used is the processor's time that this process used.
func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
