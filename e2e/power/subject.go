package power

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Note is what happened to a caller of the pool, or inside a call.
type Note struct {
	Name string          // of the volume; "" for calls on the whole pool
	Text string          // for people
	Data json.RawMessage // for the subject, of asks and tolds
}

// Work is a request to mount the filesystem of a disk, open a pool on it, and make calls.
type Work struct {
	Seed    uint64
	Callers int
	Calls   int  // of each caller
	Kills   bool // the process with the pool is killed now and then, and another continues
}

// Judge is a request to mount what a power cut left, and to hold the pool on it against what
// callers knew.
type Judge struct {
	Seed  uint64
	Notes []json.RawMessage // asks and tolds before the cut, in their order
}

// Fault is what is wrong with a pool after a power cut.
type Fault struct {
	Name string // of the volume; "" for the whole pool
	Text string
}

// Verdict is the answer to a request.
type Verdict struct {
	Faults []Fault
	Mount  string // the reason why the filesystem could not be mounted
	Error  string // the reason why the request could not be done
}

type request struct {
	Filesystem Filesystem
	Device     string
	Work       *Work  `json:",omitempty"`
	Judge      *Judge `json:",omitempty"`
}

// message is what a subject sends: a note, to which it waits for an answer, or the verdict of a
// request.
type message struct {
	Kind    Kind
	Note    *Note
	Verdict *Verdict
}

// Subject is a process of package volume, in a mount namespace of its own: a container that starts
// meanwhile would keep a copy of a mount otherwise, and the next mount of the disk would show what
// that one has in memory.
type Subject struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// NewSubject starts the test program of package volume, built with the tag power. What it prints
// goes to output.
func NewSubject(program string, output io.Writer) (*Subject, error) {
	requests, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer requests.Close()
	out, messages, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer messages.Close()
	cmd := exec.Command(program, "-test.run=^TestPowerSubject$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "POWER_SUBJECT=1")
	cmd.ExtraFiles = []*os.File{requests, messages} // 3 and 4
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &Subject{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// Close ends the process.
func (s *Subject) Close() error {
	return errors.Join(s.in.Close(), s.cmd.Wait())
}

// ask sends a request and logs its notes on the disk until there is a verdict.
func (s *Subject) ask(r request, d *Disk) (Verdict, error) {
	if err := s.send(r); err != nil {
		return Verdict{}, err
	}
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return Verdict{}, fmt.Errorf("the process with the pool is gone: %w", err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return Verdict{}, fmt.Errorf("%q: %w", line, err)
		}
		if v := m.Verdict; v != nil {
			if v.Error != "" {
				return *v, errors.New(v.Error)
			}
			return *v, nil
		}
		d.Note(Event{Kind: m.Kind, Note: *m.Note})
		if err := s.send(struct{}{}); err != nil {
			return Verdict{}, err
		}
	}
}

func (s *Subject) send(v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		_, err = s.in.Write(append(data, '\n'))
	}
	return err
}
