//go:build power

package volume_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
)

// TestPowerSubject is the process with the pools of e2e/power, which has the disks and cuts their
// power. It answers requests until its input ends: to make calls and to note each, or to compare
// what a power cut left with such notes.
//
//	calls_power_test.go  the calls
//	known_power_test.go  what callers know
//	judge_power_test.go  what is wrong after a power cut
func TestPowerSubject(t *testing.T) {
	if os.Getenv("POWER_SUBJECT") == "" {
		t.Fatal("the test of e2e/power runs this: go -C e2e test ./power")
	}
	s := &subject{in: bufio.NewReader(os.NewFile(3, "requests")), out: os.NewFile(4, "messages"), root: t.TempDir()}
	for {
		line, err := s.in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		ok(t, err)
		var r request
		ok(t, json.Unmarshal(line, &r))
		ok(t, s.send(message{Verdict: s.answer(r)}))
	}
}

// request and message have the form of those of e2e/power.
type request struct {
	Filesystem struct {
		Name, Kernel, Options string
		Quota, Unordered      bool
	}
	Device string
	Work   *struct {
		Seed           uint64
		Callers, Calls int
		Kills          bool
	}
	Judge *struct {
		Seed  uint64
		Notes []note
	}
}

type message struct {
	Kind    byte
	Note    *noteMessage
	Verdict *verdict
}

type noteMessage struct {
	Name, Text string
	Data       *note
}

type verdict struct {
	Faults       []powerFault
	Mount, Error string
}

type powerFault struct{ Name, Text string }

const (
	isAsk  = 'A'
	isTold = 'T'
	isStep = 'S'
)

// A subject is the process with the pool.
type subject struct {
	in   *bufio.Reader
	root string // where the disk is mounted

	mu  sync.Mutex // guards out, and in while there is a request
	out *os.File
}

func (s *subject) send(m message) error {
	data, err := json.Marshal(m)
	if err == nil {
		_, err = s.out.Write(append(data, '\n'))
	}
	return err
}

// say sends a note and waits until it is logged, so that it is in order with the writes of the
// disk.
func (s *subject) say(kind byte, n noteMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.send(message{Kind: kind, Note: &n}); err != nil {
		panic(err)
	}
	if _, err := s.in.ReadBytes('\n'); err != nil {
		panic(err)
	}
}

func (s *subject) answer(r request) *verdict {
	mounted := error(unix.EBUSY)
	for n := 0; mounted == unix.EBUSY && n < 100; n++ { // e2e/power may be starting a program, which has its descriptor of the device until then
		time.Sleep(time.Duration(n) * time.Millisecond)
		mounted = unix.Mount(r.Device, s.root, r.Filesystem.Kernel, 0, r.Filesystem.Options)
	}
	if mounted != nil {
		return &verdict{Mount: mounted.Error()}
	}
	c := &caller{subject: s, quota: r.Filesystem.Quota, unordered: r.Filesystem.Unordered, path: filepath.Join(s.root, "pool"), account: newPowerAccount()}
	v := &verdict{}
	var err error
	if r.Work != nil {
		err = c.work(r.Work.Seed, r.Work.Callers, r.Work.Calls, r.Work.Kills)
	} else {
		v.Faults = c.judge(r.Judge.Notes, r.Judge.Seed)
	}
	if c.pool != nil {
		err = errors.Join(err, c.pool.Close())
	}
	unmounted := unix.Unmount(s.root, 0)
	for n := 0; unmounted == unix.EBUSY && n < 100; n++ {
		time.Sleep(20 * time.Millisecond)
		unmounted = unix.Unmount(s.root, 0)
	}
	if err = errors.Join(err, unmounted); err != nil {
		v.Error = err.Error()
	}
	return v
}

// open opens the pool as a new process does.
func (c *caller) open(step func(string)) error {
	p, err := volume.New(volume.Config{Path: c.path, EnableBtrfsQuota: c.quota, Patience: time.Minute, Step: step,
		TrashRetentionMax: keepsFor})
	if err != nil {
		return err
	}
	c.pool = p
	return p.Open()
}
