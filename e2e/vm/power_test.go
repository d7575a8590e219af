package vm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/vm"
)

// The power goes while many callers make, bind, expand, adopt and delete volumes on XFS, ext4 and
// btrfs, and the next machine holds what is on the disks against what they were told; TestVMPower
// in volume is what runs in the machine. The machine is killed: what it did not flush was in its
// memory only, so a flush that is missing shows.
//
// POWER_ROUNDS is how often the power goes on each filesystem, 2 unless set. The verdict is one
// line, and a test without faults passes:
//
//	operations 512 cuts 6 lost 0 leaked 0 double 0
func TestPowerCutPools(t *testing.T) {
	t.Parallel()
	rounds := 2
	if text := os.Getenv("POWER_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("POWER_ROUNDS=%q; want a number of rounds", text)
		}
	}
	c := newCampaign(t)
	for round := range rounds {
		// One more round takes two machines: the last one checks.
		if end, bounded := t.Deadline(); bounded && round > 0 && time.Until(end) < 3*c.slowest {
			t.Logf("%d of %d rounds: the time of go test's -timeout is up", round, rounds)
			break
		}
		c.cut(t, round)
	}
	c.last(t)
	fmt.Println(c.verdict())
	if c.lost+c.leaked+c.double > 0 {
		t.Error("what callers were told did not hold, or something was left over; see the faults above")
	}
}

const (
	// atMost bounds the time of one machine: an emulated one on a busy machine takes many times as
	// long.
	atMost = 6 * time.Minute
	// callsFor is when the power goes at the latest, since calls began.
	callsFor = time.Minute
)

var filesystems = []string{"xfs", "ext4", "btrfs"}

// A campaign is one set of disks, through many machines.
type campaign struct {
	machine vm.Machine
	notes   string            // the disk on which the next machine finds what was told
	told    map[string]string // by filesystem, since the check before

	operations, cuts, lost, leaked, double int

	slowest time.Duration // of the machines so far
}

func newCampaign(t *testing.T) *campaign {
	t.Helper()
	m := machine(t, "./volume")
	m.Disks = []string{disk(t, "mkfs.xfs"), disk(t, "mkfs.ext4", "-O", "project,quota", "-E", "quotatype=prjquota"), disk(t, "mkfs.btrfs")}
	c := &campaign{machine: m, notes: filepath.Join(t.TempDir(), "told"), told: map[string]string{}}
	c.machine.Disks = append(c.machine.Disks, c.notes)
	c.machine.Env = []string{"POWER_DISKS=xfs=/dev/vda ext4=/dev/vdb btrfs=/dev/vdc", "POWER_TOLD=/dev/vdd"}
	c.machine.Modules = []string{"xfs", "quota_v2", "btrfs"}
	c.machine.Args = []string{"-test.run=^TestVMPower$", "-test.timeout=0"}
	return c
}

// cut lets the machine run and takes its power: in a moment when the last call on each filesystem
// was just told and nothing flushes for it, in the middle of many calls, or, every third time,
// while the start after the cut before is at work.
func (c *campaign) cut(t *testing.T, round int) {
	t.Helper()
	c.note(t)
	ctx, cut := context.WithTimeout(t.Context(), atMost)
	defer cut()
	w := &listener{cut: cut}
	switch round % 3 {
	case 2:
		w.pattern, w.left = regexp.MustCompile(`(?m)^power: start$`), 1
		w.delay = time.Duration(rand.Int64N(int64(2 * time.Second)))
	case 1:
		w.pattern, w.left = regexp.MustCompile(`(?m)^power: \w+ told `), 150+rand.IntN(300)
	default:
		w.pattern, w.left = regexp.MustCompile(`(?m)^power: \w+ quiet$`), len(filesystems)*(2+rand.IntN(4))
	}
	m := c.machine
	m.Output = io.MultiWriter(w, errorsOf(linesOf(t)))
	began := time.Now()
	if err := vm.Run(ctx, m); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want the machine to be killed", err)
	}
	c.slowest = max(c.slowest, time.Since(began))
	c.cuts += len(filesystems)
	c.count(t, w.text())
}

// last checks once more.
func (c *campaign) last(t *testing.T) {
	t.Helper()
	c.note(t)
	w := &listener{}
	m := c.machine
	m.Env, m.Output = append(m.Env, "POWER_LAST=1"), io.MultiWriter(w, errorsOf(linesOf(t)))
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	if err := vm.Run(ctx, m); err != nil {
		t.Fatal(err)
	}
	for _, kind := range filesystems {
		if !strings.Contains(w.text(), "power: "+kind+" checked\n") {
			t.Errorf("%s was not checked", kind)
		}
	}
	c.count(t, w.text())
}

// note writes what was told to the disk that the next machine reads.
func (c *campaign) note(t *testing.T) {
	t.Helper()
	var all string
	for _, kind := range filesystems {
		all += c.told[kind]
	}
	data := append([]byte(all), make([]byte, 1<<20)...)
	if err := os.WriteFile(c.notes, data[:len(data)&^511], 0o600); err != nil {
		t.Fatal(err)
	}
}

// count takes over what a machine said.
func (c *campaign) count(t *testing.T, said string) {
	t.Helper()
	said = said[:strings.LastIndex(said, "\n")+1] // a line that is not whole was not said
	for _, kind := range filesystems {
		var lines []string
		for line := range strings.Lines(said) {
			what, ours := strings.CutPrefix(line, "power: "+kind+" ")
			if !ours {
				continue
			}
			lines = append(lines, line)
			switch word, rest, _ := strings.Cut(what, " "); word {
			case "told":
				c.operations++
			case "fault":
				c.fault(t, kind, rest)
			}
		}
		if text := strings.Join(lines, ""); strings.Contains(text, "power: "+kind+" begins\n") {
			c.told[kind] = text
		}
	}
}

func (c *campaign) fault(t *testing.T, kind, what string) {
	t.Helper()
	t.Logf("%s: %s", kind, what)
	switch word, _, _ := strings.Cut(what, " "); word {
	case "lost":
		c.lost++
	case "leaked":
		c.leaked++
	case "double":
		c.double++
	default:
		t.Errorf("%s cannot be checked: %s", kind, what)
	}
}

func (c *campaign) verdict() string {
	return fmt.Sprintf("operations %d cuts %d lost %d leaked %d double %d", c.operations, c.cuts, c.lost, c.leaked, c.double)
}

// A listener hears what a machine says, and cuts its power where the pattern comes for the last
// time that is left.
type listener struct {
	pattern *regexp.Regexp
	left    int
	delay   time.Duration
	cut     func()

	mu   sync.Mutex
	said []byte
	late *time.Timer
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := bytes.LastIndexByte(l.said, '\n') + 1
	l.said = append(l.said, p...)
	whole := bytes.LastIndexByte(l.said, '\n') + 1
	if l.pattern == nil || l.left <= 0 || whole <= before {
		return len(p), nil
	}
	if l.late == nil && bytes.Contains(l.said, []byte(" begins\n")) {
		l.late = time.AfterFunc(callsFor, l.cut)
	}
	if l.left -= len(l.pattern.FindAllIndex(l.said[before:whole], -1)); l.left <= 0 {
		if l.delay > 0 {
			time.AfterFunc(l.delay, l.cut)
		} else {
			l.cut()
		}
	}
	return len(p), nil
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.said)
}

// errorsOf passes on what is no part of the report.
func errorsOf(w io.Writer) io.Writer { return &unreported{w: w} }

type unreported struct {
	w    io.Writer
	rest []byte
}

func (u *unreported) Write(p []byte) (int, error) {
	u.rest = append(u.rest, p...)
	for {
		line, rest, whole := bytes.Cut(u.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if !bytes.HasPrefix(line, []byte("power: ")) {
			fmt.Fprintf(u.w, "%s\n", line)
		}
		u.rest = rest
	}
}
