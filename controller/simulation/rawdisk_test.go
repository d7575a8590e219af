package simulation_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/simulation"
)

// TestRawDisks runs words about raw disks. rule is the one that is broken today; a mend removes it.
func TestRawDisks(t *testing.T) {
	if os.Getenv(varMinutes) == "" {
		return // it takes two minutes: make simulate runs it
	}
	offer := func(existing, dir string) string {
		return fmt.Sprintf("raw offer node-01 %s %s Block; raw plug node-01 1 naa/1; ", existing, dir)
	}
	bound := func(existing, dir string) string {
		return offer(existing, dir) + "raw claim r1; wait 5m; raw pod node-01 1 off; wait 2m; "
	}
	hanging := offer("refuse", "by-path")
	for i := 2; i <= 17; i++ {
		hanging += fmt.Sprintf("raw plug node-01 %d naa/%d; raw disk node-01 %[1]d hanging; ", i, i)
	}
	c := &child{t: t}
	defer c.end()
	for name, row := range map[string]struct{ words, rule string }{
		"a claim, and its end": {bound("refuse", "by-id") + "delete claim r1; wait 5m", ""},
		"boots": {bound("refuse", "by-path") + "raw boot node-01 1; wait 5m; delete claim r1; wait 1s; " +
			"raw boot node-01 1; wait 10m", ""},
		"killed in a wipe": {bound("refuse", "by-id") + "raw kill node-01 3 after; delete claim r1; wait 5m", ""},
		"multipath on one node": {"raw offer node-02 refuse by-id Block; raw host node-02 multipath on; " +
			"raw plug node-02 1 naa/1; wait 1m; " + offer("refuse", "by-id") + "wait 5m", ""},
		"kpartx on a claim's disk": {"raw offer node-01 wipe by-id Block; raw host node-01 multipath on; " +
			bound("wipe", "by-id") + "raw partition node-01 1 2; wait 10m", ""},
		"a claim's logical volume": {bound("refuse", "by-id") + "raw host node-01 lvm on; raw lvm node-01 1; wait 10m", ""},
		"mounted by another path": {"raw offer node-01 wipe by-path Block; raw plug node-01 1 naa/1; " +
			"raw plug node-01 2 naa/1; raw take node-01 2; wait 10m", ""},
		"a partition, another link": {bound("wipe", "by-id") + "raw partition node-01 1 1; raw rename node-01 1 x; " +
			"wait 10m", ""},
		"removed by force": {"raw offer node-02 wipe by-id Block; " + bound("refuse", "by-id") + "raw pod node-01 1 on; " +
			"wait 2m; raw plug node-02 1 naa/1; raw force node-01 1; wait 20m", ""},
		"an ID of the slot": {"raw offer node-01 refuse by-path Block; raw plug node-01 1 qemu/1; raw plug node-01 2 qemu/2; " +
			"raw claim r1; raw claim r2; wait 5m; raw unplug node-01 1; raw unplug node-01 2; " +
			"raw plug node-01 1 qemu/2; raw plug node-01 2 qemu/1; delete claim r1; wait 20m", ""},
		"two sizes of one ID": {offer("refuse", "by-path") + "raw plug node-01 2 naa/1/32; wait 2h", ""},
		"confirmed at another name": {bound("refuse", "by-path") + "raw unplug node-01 1; raw plug node-01 2 naa/1; " +
			"delete claim r1; wait 10m; raw obey node-01 2; wait 1h", ""},
		"the host takes it": {offer("refuse", "by-id") + "wait 2m; raw take node-01 1; wait 30m; raw claim r1; wait 5m", ""},
		"and the agent starts": {offer("refuse", "by-id") + "wait 2m; raw take node-01 1; wait 30m; raw unmount node-01 1; " +
			"raw restart node-01; wait 2m; raw claim r1; wait 1m", ""},
		"another node's host has it": {"raw offer node-01 wipe by-id Block; raw plug node-01 1 naa/1; raw take node-01 1; wait 20m; " +
			"raw offer node-02 wipe by-id Block; raw plug node-02 1 naa/1; wait 20m", ""},
		"a path that leads to a shared disk": {"raw offer node-01 wipe by-id Block; raw plug node-01 1 naa/1; raw claim r1; " +
			"raw offer node-02 refuse by-path Filesystem; raw plug node-02 1 naa/3; raw plug node-02 2 naa/2; raw plug node-02 3 naa/1; " +
			"raw claim r2; wait 2m; wait write 10m; raw move node-02 2 3; wait 5s; delete claim r2; raw stop node-02; wait 30s; " +
			"raw unref node-02 3; raw claim r11; wait 5s", ""},
		"the slots of a pool's disk": {"raw offer node-01 wipe by-path Filesystem; raw plug node-01 1 naa/4; raw plug node-01 2 serial/3; " +
			"raw plug node-01 3 qemu-eui/2; raw claim r1; raw offer node-02 wipe by-id Filesystem; " +
			"raw plug node-02 1 qemu-eui/1; raw plug node-02 2 qemu-eui/2; raw plug node-02 3 naa/1; raw claim r2; " +
			"raw claim r3; wait 2m; raw rename node-02 2 disk-2; wait 1s; delete claim r3; wait 5s; raw pool node-01 2; " +
			"wait 5s; delete claim r2; wait 1s; delete claim r1; wait 5s; raw unref node-01 1; wait 1s; raw unref node-01 2; " +
			"raw move node-01 2 1", ""},
		"a disk of two PVs, as a person sees": {"raw offer node-01 wipe by-id Block; raw plug node-01 1 qemu-eui/2; raw claim r1; raw claim r2; " +
			"raw offer node-02 refuse by-path Block; raw plug node-02 1 qemu-eui/1; raw claim r3; wait 2m; raw claim r4; wait 30s; " +
			"delete claim r3; wait 1s; delete claim r2; delete claim r1; wait 1s; raw boot node-01 3 4 1 2; wait 5s; " +
			"delete claim r4; wait 30s; wait 5s; manager late 15s; wait 1s; raw obey node-01 1; wait 1s; raw claim r13; wait 5s; " +
			"raw pod node-02 1 off; wait write 10m; raw move node-02 1 3; wait 30s; raw claim r22; delete claim r13; raw claim r31; " +
			"wait write 10m; raw move node-02 3 1; raw obey node-02 1", ""},
		"the Node is made again": {bound("refuse", "by-id") + "node blink node-01; wait 1m", ""},
		"the Node is gone, and a claim comes": {offer("refuse", "by-id") + "wait 5m; node delete node-01; wait 45m; raw claim r1; " +
			"wait 5m", ""},
		"the Node is gone, and back": {offer("refuse", "by-id") + "wait 5m; node delete node-01; wait 45m; node make node-01; " +
			"wait 10m; raw claim r1; wait 5m", ""},
		"a Node with a claim's disk is gone, and back": {bound("refuse", "by-id") + "node delete node-01; wait 45m; " +
			"node make node-01; wait 10m; raw obey node-01 1; delete claim r1; wait 20m", ""},
		"a clone of a disk": {offer("refuse", "by-path") + "raw plug node-01 2 naa/1/64; wait 2h", ""},
		"a pool's disk, and the Node is made again": {"raw offer node-02 wipe by-id Block; raw plug node-02 1 nguid/1; raw claim r1; " +
			"wait 2m; node delete node-02; raw pool node-02 1; delete claim r1; wait 2m; raw unref node-02 1; wait 10m", ""},
		"a clone that comes later": {offer("refuse", "by-path") + "wait 2m; raw plug node-01 2 naa/1/64; wait 2h", ""},
		"a clone with the host's data": {offer("refuse", "by-path") + "wait 2m; raw plug node-01 2 naa/1/64; raw take node-01 2; " +
			"raw unmount node-01 2; raw restart node-01; wait 10m", ""},
		"a claim's disk, and the host's clone in its slot": {bound("refuse", "by-path") + "raw unplug node-01 1; " +
			"raw plug node-01 1 naa/1/64; raw plug node-01 2 naa/1; raw take node-01 1; raw unmount node-01 1; delete claim r1; wait 20m", ""},
		"the disk of a pool": {bound("refuse", "by-id") + "raw pool node-01 1; delete claim r1; wait 5m", ""},
		"no disk":            {offer("refuse", "by-id") + "wait 2m; raw unplug node-01 1; wait 5m", ""},
		"sixteen hang":       {hanging + "wait 5m; raw plug node-01 18 naa/18; wait 3h", ""},
		"a path that another disk got": {"raw offer node-02 wipe by-path Block; raw plug node-02 1 nguid/1; raw claim r1; wait 2m; " +
			"raw plug node-02 4 qemu-eui/2; wait 2m; raw move node-02 1 2; wait 10m; raw move node-02 4 2; wait 10m; " +
			"raw claim r2; wait 5m; raw claim r3; wait 10m", ""},
		"no ConfigMap": {bound("refuse", "by-id") + "raw offer node-01 none by-id Block; wait 1m; " +
			"delete claim r1; wait 2h", ""},
	} {
		r := c.run(simulation.Run{Seed: 1, Words: strings.Split(strings.TrimRight(row.words, "; "), "; ")})
		got := ""
		if len(r.Violations) > 0 {
			got = r.Violations[0].Rule
		}
		if got != row.rule {
			t.Errorf("%s: broken is %q, want %q: %+v\n%s", name, got, row.rule, r.Violations, strings.Join(r.Trace, "\n"))
		}
	}
}
