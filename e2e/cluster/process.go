package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program that runs in the background, in a directory with its record and its log. Any
// process that knows the directory can manage it, not only its parent.
type Process struct {
	Title string // for people: "node-01 kubelet"
	Name  string // for files: "kubelet"
	Dir   string // for the directories logs and processes
}

// processRecord identifies a process: IDs are used again, but not with the same start time in one
// boot.
type processRecord struct {
	PID   int      `json:"pid"`
	Start uint64   `json:"start"` // clock ticks since boot
	Boot  string   `json:"boot"`
	Args  []string `json:"args"`
}

// Log returns the path of the log.
func (p Process) Log() string    { return filepath.Join(p.Dir, "logs", p.Name+".log") }
func (p Process) record() string { return filepath.Join(p.Dir, "processes", p.Name+".json") }

// Start runs argv with its output in the log. A detached process outlives this one; any other ends
// with it, however it ends. attr may be nil.
func (p Process) Start(detach bool, attr *syscall.SysProcAttr, argv ...string) error {
	for _, file := range []string{p.Log(), p.record()} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = attr
	if attr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setsid = true
	if detach {
		keepFiles()
	} else { // the kernel sends it when the thread ends that started the process: no goroutine may end locked to a thread
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Title, err)
	}
	start, _ := startTime(cmd.Process.Pid)
	record := processRecord{PID: cmd.Process.Pid, Start: start, Boot: bootID(), Args: argv}
	if err := writeJSON(p.record(), record); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.Title, err), cmd.Process.Kill(), cmd.Wait())
	}
	go func() { _ = cmd.Wait() }() // reaps it if it ends before this process
	return nil
}

// PID returns the process's ID, and whether it runs.
func (p Process) PID() (int, bool) {
	data, err := os.ReadFile(p.record())
	if err != nil {
		return 0, false
	}
	var r processRecord
	if json.Unmarshal(data, &r) != nil || r.Boot != bootID() {
		return 0, false
	}
	if start, alive := startTime(r.PID); !alive || start != r.Start {
		return 0, false
	}
	return r.PID, true
}

// Stop ends the process: with SIGTERM, and after grace with SIGKILL. Zero grace kills at once. It
// does nothing if the process does not run.
func (p Process) Stop(grace time.Duration) error {
	pid, ok := p.PID()
	if !ok {
		return nil
	}
	if grace > 0 {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		if p.ended(grace) {
			return nil
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end %s (process %d): %w", p.Title, pid, err)
	}
	if !p.ended(time.Minute) {
		return fmt.Errorf("end %s: process %d is still there a minute after it was killed", p.Title, pid)
	}
	return nil
}

func (p Process) ended(within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, alive := p.PID(); !alive {
			return true
		}
	}
	return false
}

// tail returns the end of the log, for an error message, with the path of the log.
func (p Process) tail() string {
	data, _ := os.ReadFile(p.Log())
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return fmt.Sprintf("the last lines of %s:\n  %s", p.Log(), bytes.Join(lines, []byte("\n  ")))
}

// patience is how long a process may take until it is ready: seconds, but minutes on a machine that
// is busy with other tests.
const patience = 3 * time.Minute

// Await calls ready every 100 ms until it returns nil. It returns an error with the end of the log
// if the process ends, after the patience of three minutes, or when the context ends.
func (p Process) Await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		attempt, stop := context.WithTimeout(ctx, patience/10)
		err := ready(attempt)
		stop()
		if err == nil {
			return nil
		}
		if _, alive := p.PID(); !alive {
			return fmt.Errorf("%s ended while starting; %s", p.Title, p.tail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w; %s", p.Title, patience, err, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// startTime returns when a process began; alive is false if there is none or only its zombie.
func startTime(pid int) (ticks uint64, alive bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	return parseStat(string(data))
}

// parseStat parses a line of proc_pid_stat(5). The second field is a name in parentheses that may
// contain anything. A process whose first thread is a zombie is alive while it has others: they hold
// its ports and its locks.
func parseStat(line string) (ticks uint64, alive bool) {
	const state, threads, start = 0, 17, 19 // counted from the field after the name
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return 0, false
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) <= start {
		return 0, false
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	first := fields[state] != "Z" && fields[state] != "X"
	others := fields[threads] != "0" && fields[threads] != "1"
	return ticks, err == nil && (first || others)
}

// keepFiles has no child inherit what this process inherited from the shell, except the first three
// files: a detached process would keep pipes and locks of the caller for as long as it runs.
// Kernels before 5.11 lack the call; there it does nothing.
func keepFiles() {
	const closeRange, cloexec = 436, 1 << 2 // close_range(2), CLOSE_RANGE_CLOEXEC
	_, _, _ = syscall.Syscall(closeRange, 3, math.MaxUint32, cloexec)
}
