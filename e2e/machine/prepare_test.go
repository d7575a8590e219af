package machine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/e2e/pages"
)

// prepared are the pools on disks that docs/filesystems.md prepares: what findmnt and inspect print
// of each, and the error of a write beyond a quota.
var prepared = []struct{ pool, kind, method, full string }{
	{"plain-xfs", "xfs", "xfs-project-quota", "No space left on device"},
	{"plain-ext4", "ext4", "ext4-project-quota", "Disk quota exceeded"},
	{"array", "xfs", "xfs-project-quota", "No space left on device"},
	{"luks", "xfs", "xfs-project-quota", "No space left on device"},
}

// at is where a pool's disk is mounted.
func at(pool string) string { return "/var/hpvolumes/" + pool }

// part returns the commands below a heading of docs/filesystems.md, for the disks and the pool.
func part(t *testing.T, heading, pool string, disks ...string) (all []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "filesystems.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n"+heading+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	commands, err := pages.Commands(text)
	if err != nil || !found || len(commands) == 0 {
		t.Fatalf("the page has %d commands below %q: %v", len(commands), heading, err)
	}
	values := map[string]string{"ID": "virtio-MY-DISKS-" + disks[0]}
	if len(disks) > 1 {
		values["OTHER"] = "virtio-MY-DISKS-" + disks[1]
	}
	for _, c := range commands {
		all = append(all, strings.ReplaceAll(c.Fill(values), disk, at(pool)))
	}
	return all
}

// follow runs commands of the page one after another, as an administrator's shell does. What a
// command sets is there for those after it.
func follow(t *testing.T, commands []string) {
	t.Helper()
	set := "set -e\n"
	for _, c := range commands {
		switch {
		case pages.Command{Text: c}.Sets():
			set += c + "\n"
		case strings.HasPrefix(c, "blkid"):
			want(t, set+c+" 2>&1 || true", "")
		default:
			t.Logf("%s\n%s", c, on(t, set+c))
		}
	}
}

// prepare runs the page's commands for the four pools.
func prepare(t *testing.T) {
	t.Helper()
	format := func(pool string, disks ...string) []string { return part(t, "## Prepare a node", pool, disks...) }
	follow(t, format("plain-xfs", "plain-xfs"))

	ext4, lines := format("plain-ext4", "plain-ext4"), part(t, "### ext4", "plain-ext4", "plain-ext4")
	for i, c := range ext4 {
		switch {
		case strings.HasPrefix(c, "mkfs."):
			ext4[i] = lines[0]
		case strings.HasPrefix(c, "echo"):
			ext4[i] = lines[1]
		}
	}
	follow(t, ext4)

	follow(t, append(part(t, "## RAID", "array", "leg-a", "leg-b"), format("array", "none")[1:]...))
	follow(t, append(part(t, "## Encryption", "luks", "luks"), format("luks", "none")[1:]...))
}

// serve gives the agent the pools, and each a class and a claim, and returns once they are bound.
func serve(t *testing.T) {
	t.Helper()
	pools := []map[string]string{{"name": "local", "path": disk + "/csi", "mount": disk}}
	for _, p := range prepared {
		pools = append(pools, map[string]string{"name": p.pool, "path": at(p.pool) + "/csi", "mount": at(p.pool)})
	}
	datadir, err := json.Marshal(pools)
	if err != nil {
		t.Fatal(err)
	}
	do(t, "", "-n", namespace, "set", "env", agentSet, "DATADIR="+string(datadir))
	if err := agentReady(); err != nil {
		t.Fatal(err)
	}
	for _, p := range prepared {
		do(t, fmt.Sprintf(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: %[1]s}
provisioner: kubevirt.io.hostpath-provisioner
volumeBindingMode: WaitForFirstConsumer
parameters: {storagePool: %[1]s, quota: required}
`, p.pool), "apply", "-f", "-")
		bind(t, p.pool, p.pool)
	}
}

// bind creates a claim on the node and returns once it is bound.
func bind(t *testing.T, name, class string) {
	t.Helper()
	do(t, claim(name, class, "volume.kubernetes.io/selected-node: node-01"), "apply", "-f", "-")
	do(t, "", "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/"+name, "--timeout="+soon.String())
}

// remove deletes a claim and returns once its volume is gone. It does nothing if there is none.
func remove(t *testing.T, name string) {
	t.Helper()
	volume := do(t, "", "get", "pvc", name, "--ignore-not-found", "-o", "jsonpath={.spec.volumeName}")
	do(t, "", "delete", "pvc", name, "--ignore-not-found")
	if volume != "" {
		do(t, "", "wait", "--for=delete", "pv/"+volume, "--timeout="+soon.String())
	}
}

// forget leaves the disks blank, and the agent and the system as they were.
func forget(t *testing.T) {
	t.Helper()
	guest.Unplug()
	for _, p := range prepared {
		remove(t, p.pool)
		do(t, "", "delete", "storageclass", p.pool, "--ignore-not-found")
	}
	if err := applyAgent(); err != nil {
		t.Fatal(err)
	}
	if err := agentReady(); err != nil { // its former process held the pools
		t.Fatal(err)
	}
	for _, p := range prepared {
		on(t, "disk=$(findmnt -no SOURCE "+at(p.pool)+") && umount "+at(p.pool)+" && wipefs -q -a $disk; rmdir "+at(p.pool)+"; sed -i '\\# "+at(p.pool)+" #d' /etc/fstab")
	}
	on(t, `systemctl stop systemd-cryptsetup@hpvolumes; mdadm --stop --scan; sed -i /hpvolumes/d /etc/crypttab; rm -f /etc/hpvolumes.key /root/kept.key
systemctl daemon-reload
cd /dev/disk/by-id && for disk in raw plain-xfs plain-ext4 leg-a leg-b luks; do wipefs -q -a virtio-MY-DISKS-$disk; done`)
}

// holds wants the disk of a pool to be mounted, and the quota of its volume to be in force.
func holds(t *testing.T, pool string) {
	t.Helper()
	for _, p := range prepared {
		if p.pool != pool {
			continue
		}
		want(t, "findmnt -no FSTYPE "+at(pool), p.kind)
		wantWords(t, "findmnt -no OPTIONS "+at(pool), "prjquota", "")
		wantWords(t, "hostpath-provisioner inspect "+at(pool)+"/csi", p.method, "no quota")
		file := at(pool) + "/csi/pvc-*/fill"
		fill := "f=$(echo " + at(pool) + "/csi/pvc-*)/fill; setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource dd if=/dev/zero bs=1M of=$f count="
		on(t, fill+"40 && rm "+file)
		wantRefused(t, fill+"80", p.full)
		on(t, "rm "+file)
	}
}

// TestPrepare follows docs/filesystems.md: a node is prepared with a disk of XFS, one of ext4, a
// mirror of two disks, and an encrypted one, and quotas hold on each, also after a boot. A boot
// without the disks, or with a wrong key, ends, and the agent leaves the bare directories alone.
func TestPrepare(t *testing.T) {
	t.Cleanup(func() { forget(t) })
	prepare(t)
	serve(t)
	for _, p := range prepared {
		holds(t, p.pool)
	}
	t.Run("a disk of the mirror fails", func(t *testing.T) {
		const failed = "/dev/disk/by-id/virtio-MY-DISKS-leg-a"
		on(t, "mdadm $(findmnt -no SOURCE "+at("array")+") --fail "+failed)
		wantWords(t, "cat /proc/mdstat", "[_U]", "")
		holds(t, "array")
		follow(t, part(t, "### A disk of the mirror has failed", "array", "raw"))
		awaitWords(t, soon, "cat /proc/mdstat", "[UU]", "")
		on(t, "dd if=/dev/zero bs=1M count=16 status=none of="+failed) // with the filesystem, for a test again
	})
	t.Run("a boot without disks, and with a wrong key", func(t *testing.T) {
		guest.Unplug("plain-xfs", "plain-ext4", "leg-b")
		on(t, "cp /etc/hpvolumes.key /root/kept.key && dd if=/dev/urandom of=/etc/hpvolumes.key bs=64 count=1 status=none")
		for _, pool := range []string{"plain-xfs", "plain-ext4", "array"} { // this machine waits for ten minutes otherwise
			on(t, "dir=/etc/systemd/system/$(systemd-escape -p --suffix=device $(awk '$2==\""+at(pool)+"\" {print $1}' /etc/fstab))"+
				`.d; mkdir -p $dir && printf '[Unit]\nJobRunningTimeoutSec=30s\n' >$dir/test.conf`)
		}
		boots(t, guest.Reboot)
		want(t, "systemctl is-active kubelet.service", "active")
		bare(t, "array")
		follow(t, part(t, "### A disk of the mirror is missing at a boot", "array", "none"))
		wantWords(t, "cat /proc/mdstat", "[U_]", "")
		awaitWords(t, soon, "hostpath-provisioner inspect "+at("array")+"/csi", "xfs-project-quota", "")
		holds(t, "array")
		want(t, "systemctl is-failed systemd-cryptsetup@hpvolumes.service", "failed")
		bare(t, "plain-xfs", "plain-ext4", "luks")
		on(t, "rm /etc/hpvolumes.key")
		wantRefused(t, "systemctl start systemd-cryptsetup@hpvolumes", "failed")
		on(t, "cp /root/kept.key /etc/hpvolumes.key && systemctl start "+at("luks"))
		bind(t, "again", "luks") // the agent that waited serves the pool
		remove(t, "again")
	})
	t.Run("a boot with all disks", func(t *testing.T) {
		guest.Unplug()
		on(t, "rm -r /etc/systemd/system/dev-disk-*.device.d")
		boots(t, guest.Reboot)
		if err := agentReady(); err != nil {
			t.Fatal(err)
		}
		for _, p := range prepared {
			holds(t, p.pool)
		}
		if members := strings.Count(on(t, "grep ^md /proc/mdstat"), "vd"); members == 1 { // by the order in which udev finds the disks
			follow(t, part(t, "### The missing disk is back", "array", "leg-b"))
		}
		awaitWords(t, soon, "cat /proc/mdstat", "[UU]", "")
		want(t, "systemctl --failed --plain --no-legend", "")
	})
}

// bare wants pools whose disks are not mounted: the agent waits for them, and has written nothing
// into the directories below.
func bare(t *testing.T, pools ...string) {
	t.Helper()
	for _, pool := range pools {
		awaitWords(t, soon, agentLog, "its disk must be mounted at "+at(pool), "")
	}
	for _, pool := range pools {
		want(t, "findmnt -n "+at(pool)+"; ls -A "+at(pool), "")
	}
}
