package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs in the background, in a directory with its record and its log. Any process that knows the
// directory can manage it, not only its parent.
type process struct {
	title string // for people: "node-01 kubelet"
	name  string // for files: "kubelet"
	dir   string
}

// processRecord identifies a process: IDs are used again, but not with the same start time in one boot.
type processRecord struct {
	PID   int      `json:"pid"`
	Start uint64   `json:"start"` // clock ticks since boot
	Boot  string   `json:"boot"`
	Args  []string `json:"args"`
}

func (p process) log() string    { return filepath.Join(p.dir, "logs", p.name+".log") }
func (p process) record() string { return filepath.Join(p.dir, "processes", p.name+".json") }

// start runs argv with its output in the log. A detached process outlives this one; any other ends with it, however it
// ends. attr may be nil.
func (p process) start(detach bool, attr *syscall.SysProcAttr, argv ...string) error {
	for _, file := range []string{p.log(), p.record()} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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
	if !detach {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.title, err)
	}
	start, _ := startTime(cmd.Process.Pid)
	record := processRecord{PID: cmd.Process.Pid, Start: start, Boot: bootID(), Args: argv}
	if err := writeJSON(p.record(), record); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.title, err), cmd.Process.Kill(), cmd.Wait())
	}
	go func() { _ = cmd.Wait() }() // reaps it if it ends before this process
	return nil
}

// pid returns the process's ID, and whether it runs.
func (p process) pid() (int, bool) {
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

// stop ends the process: with SIGTERM, and after grace with SIGKILL. Zero grace kills at once. It does nothing if the
// process does not run.
func (p process) stop(grace time.Duration) error {
	pid, ok := p.pid()
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
		return fmt.Errorf("end %s (process %d): %w", p.title, pid, err)
	}
	if !p.ended(10 * time.Second) {
		return fmt.Errorf("end %s: process %d is still there 10 s after it was killed", p.title, pid)
	}
	return nil
}

func (p process) ended(within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, alive := p.pid(); !alive {
			return true
		}
	}
	return false
}

// tail returns the end of the log, for an error message, with the path of the log.
func (p process) tail() string {
	data, _ := os.ReadFile(p.log())
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return fmt.Sprintf("the last lines of %s:\n  %s", p.log(), bytes.Join(lines, []byte("\n  ")))
}

// await calls ready every 100 ms until it returns nil. It returns an error with the end of the log if the process ends,
// after the timeout, or when the context ends.
func (p process) await(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if _, alive := p.pid(); !alive {
			return fmt.Errorf("%s ended while starting; %s", p.title, p.tail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w; %s", p.title, timeout, err, p.tail())
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

// parseStat parses a line of proc_pid_stat(5). The second field is a name in parentheses that may contain anything.
func parseStat(line string) (ticks uint64, alive bool) {
	const state, start = 0, 19 // counted from the field after the name
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return 0, false
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) <= start {
		return 0, false
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	return ticks, err == nil && fields[state] != "Z" && fields[state] != "X"
}
