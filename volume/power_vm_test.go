//go:build vm

package volume_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// TestVMPower runs in a machine whose power goes at any moment, on the disks
// that POWER_DISKS names ("xfs=/dev/vda ..."). It compares them
// with the results that callers got before the cut, and then makes calls until the next.
//
// The results of callers go to the standard output, a line each, and come
// back on the disk POWER_TOLD in the next machine:
//
//	power: xfs is v {...}           how a volume is when the calls begin
//	power: xfs begins
//	power: xfs ask create v 4194304   a call that is about to be made
//	power: xfs told create v 4194304  it succeeded; with more words it failed
//	power: xfs quiet                no call is under way; nothing is flushed for others
//	power: xfs fault lost ...       what should not be: lost, leaked, double, or broken
//	power: xfs checked
//
// With POWER_LAST set it ends after the check.
func TestVMPower(t *testing.T) {
	told, err := readTold(os.Getenv("POWER_TOLD"))
	ok(t, err)
	var cuts []*cut
	for _, d := range strings.Fields(os.Getenv("POWER_DISKS")) {
		kind, disk, _ := strings.Cut(d, "=")
		c := &cut{kind: kind, disk: disk, root: t.TempDir(), told: told}
		t.Cleanup(c.close)
		cuts = append(cuts, c)
	}
	fmt.Println("power: start")
	all(cuts, (*cut).check)
	if os.Getenv("POWER_LAST") != "" {
		return
	}
	seed := uint64(time.Now().UnixNano()) // the cut comes when it comes, whatever the seed
	for {
		all(cuts, func(c *cut) { c.busy(seed) })
		all(cuts, (*cut).quiet)
		seed++
	}
}

func all(cuts []*cut, do func(*cut)) {
	var wait sync.WaitGroup
	for _, c := range cuts {
		wait.Go(func() { do(c) })
	}
	wait.Wait()
}

// readTold returns the text on a disk, up to the zeros.
func readTold(disk string) (string, error) {
	data, err := os.ReadFile(disk)
	text, _, _ := bytes.Cut(data, []byte{0})
	return string(text), err
}

// A cut is one filesystem whose power went, and will go.
type cut struct {
	kind, disk, root, told string
	pool                   *volume.Pool
	world                  *world
	said                   map[breach]bool
}

var saying sync.Mutex

// say writes a line to the host, which has it when say returns.
func (c *cut) say(format string, args ...any) {
	line := "power: " + c.kind + " " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") + "\n"
	saying.Lock()
	defer saying.Unlock()
	_, err := os.Stdout.WriteString(line)
	drained := error(unix.EINTR)
	for drained == unix.EINTR {
		drained = unix.IoctlSetInt(1, unix.TCSBRK, 1) // tcdrain(3)
	}
	if err != nil || drained != nil {
		panic(fmt.Sprintf("the world outside hears nothing: %v, %v", err, drained))
	}
}

// fault reports a fault once.
func (c *cut) fault(f breach) {
	if c.said[f] {
		return
	}
	if c.said == nil {
		c.said = map[breach]bool{}
	}
	c.said[f] = true
	c.say("fault %s %s", f.kind, f.text)
}

// account has the results that callers got before the cut.
func (c *cut) account() (*account, error) {
	a := newAccount()
	lines := bufio.NewScanner(strings.NewReader(c.told))
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 7)
		if len(words) < 4 || words[0] != "power:" || words[1] != c.kind {
			continue
		}
		var o op
		if words[2] == "ask" || words[2] == "told" {
			if _, err := fmt.Sscan(strings.Join(words[3:6], " "), &o.do, &o.name, &o.bytes); err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
		}
		switch words[2] {
		case "is":
			var is truth
			if err := json.Unmarshal([]byte(strings.Join(words[4:], " ")), &is); err != nil {
				return nil, fmt.Errorf("%q: %w", lines.Text(), err)
			}
			a.may[words[3]] = []truth{is}
		case "ask":
			a.asked(o)
		case "told":
			var failed error
			if len(words) > 6 {
				failed = errors.New(words[6])
			}
			a.told(o, failed)
			if failed == nil {
				a.powerGoes(o)
			}
		}
	}
	return a, lines.Err()
}

// check mounts the disk, opens the pool, and reports faults.
func (c *cut) check() {
	if err := c.open(); err != nil {
		c.fault(breach{"broken", err.Error()})
		select {} // the host has all lines; the machine ends when it is cut
	}
	for range 2 { // before the trash is emptied, and after
		for _, f := range append(append(c.world.held(c.pool), unsound(c.pool)...), c.unlike()...) {
			c.fault(f)
		}
		for _, r := range c.pool.SetAside() { // an administrator decides
			if err := c.pool.Delete(r.Name); err != nil {
				c.fault(breach{"broken", err.Error()})
			}
		}
		c.empty()
	}
	is, err := truths(c.pool)
	if err != nil {
		c.fault(breach{"broken", err.Error()})
	}
	c.world.account = newAccount()
	for name, t := range is {
		text, _ := json.Marshal(t)
		c.say("is %s %s", name, text)
		c.world.may[name] = []truth{t}
	}
	c.say("checked")
	c.say("begins")
}

func (c *cut) open() error {
	options := map[string]string{"xfs": "prjquota", "ext4": "prjquota"}[c.kind]
	if err := unix.Mount(c.disk, c.root, c.kind, 0, options); err != nil {
		return fmt.Errorf("mount %s: %w", c.disk, err)
	}
	a, err := c.account()
	if err != nil {
		return err
	}
	c.world = &world{a, filepath.Join(c.root, "pool"), record.QuotaRequired}
	if c.unlimited() {
		c.world.limit = record.QuotaBestEffort
	}
	c.pool, err = volume.New(volume.Config{Path: c.world.path, EnableBtrfsQuota: !c.unlimited()})
	return orErr(err, func() error { return c.pool.Open() })
}

func (c *cut) close() {
	c.pool.Close()
	_ = unix.Unmount(c.root, unix.MNT_DETACH)
}

// unlimited reports whether the kernel is too old for quotas on btrfs.
func (c *cut) unlimited() bool {
	return c.kind == "btrfs" && !there("/sys/fs/btrfs/features/simple_quota")
}

func (c *cut) unlike() []breach {
	if c.unlimited() {
		return nil
	}
	return unlike(c.pool)
}

// empty purges the trash, and what the kernel frees after that in its own time.
func (c *cut) empty() {
	var left []breach
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, err := c.pool.Purge(bg)
		found, _ := os.ReadDir(filepath.Join(c.pool.Path(), trash))
		left = append(quotaDisk{root: c.root}.unswept(), c.spareGroups()...)
		if err != nil || len(found) > 0 {
			left = append(left, breach{leaked, fmt.Sprintf("the trash still holds %v, %v", found, err)})
		}
		if len(left) == 0 {
			return
		}
		unix.Sync()
	}
	for _, f := range left {
		c.fault(f)
	}
}

// spareGroups returns the quotas of btrfs that no volume has.
func (c *cut) spareGroups() []breach {
	if c.kind != "btrfs" {
		return nil
	}
	groups, _ := filepath.Glob("/sys/fs/btrfs/*/qgroups/1_*")
	records, err := recorded(c.pool)
	have := 0
	for _, r := range records {
		if r.QuotaID != 0 {
			have++
		}
	}
	if len(groups) == have && err == nil {
		return nil
	}
	return []breach{{leaked, fmt.Sprintf("%d volumes have a limit, and there are %v, %v", have, groups, err)}}
}
