package machine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/machine"
)

// mixed is a pod with an inline volume, and a volume that it may only read.
var mixed = claim("boot-mixed", "hostpath-csi", "") + writer("boot-mixed", "", "! touch /read/only && echo here >>/data/who",
	"{name: data, mountPath: /data}, {name: read, mountPath: /read}",
	"{name: data, csi: {driver: kubevirt.io.hostpath-provisioner, volumeAttributes: {size: 64Mi}}},"+
		"{name: read, persistentVolumeClaim: {claimName: boot-mixed, readOnly: true}}")

// written is the number of times that a pod has written into the volume of that directory.
func written(t *testing.T, dir string) string {
	t.Helper()
	return on(t, "cat "+dir+"/who | wc -l")
}

// After a reboot and after a power cut everything is served again without a hand. The runtime
// chooses categories for each sandbox: it labels a CSI volume with them, and a hostPath volume
// needs a pod that names its own.
func TestReboot(t *testing.T) {
	do(t, mixed, "apply", "-f", "-")
	start(t, "boot-", map[string]string{"host": "s0:c5,c6"})
	do(t, "", "wait", "--for=condition=Ready", "pod/boot-mixed", "--timeout="+soon.String())
	began := map[string]string{disk + "/csi/csi-*": ""} // the inline volume has no claim
	for name := range classes {
		began[directory(t, "boot-"+name)] = ""
	}
	for dir := range began {
		began[dir] = written(t, dir)
	}
	volumes := "hostpath-provisioner inspect " + disk + "/volumes " + disk + "/csi | awk '$1 ~ /^(pvc|csi)-/ {print $1, $2, $3, $4, $5}'"
	before := on(t, volumes)
	t.Logf("the volumes:\n%s", before)
	t.Cleanup(func() { do(t, "", "delete", "pod", "--all", "--wait=false") })
	t.Run("systemctl reboot", func(t *testing.T) {
		now := boots(t, guest.Reboot)
		want(t, "systemctl is-active hostpath-provisioner.service kubelet.service", "active\nactive")
		unit, kubelet := entered(t, "hostpath-provisioner.service"), entered(t, "containerd.service")
		if unit == 0 || unit > kubelet {
			t.Errorf("the unit was active %d µs after the boot, containerd %d µs", unit, kubelet)
		}
		againServed(t, began)
		want(t, volumes, before)
		t.Logf("served after %s", time.Since(now).Round(time.Second))
	})
	t.Run("power cut, and the disk does not mount", func(t *testing.T) {
		on(t, "sed -i 's/ xfs prjquota/ xfs noSuchOption/' /etc/fstab && sync")
		boots(t, guest.PowerCut)
		withoutDisk(t)
		on(t, "sed -i 's/ xfs noSuchOption/ xfs prjquota/' /etc/fstab && systemctl daemon-reload && systemctl start "+diskUnit)
		now := time.Now()
		againServed(t, began)
		want(t, volumes, before)
		t.Logf("served %s after the disk", time.Since(now).Round(time.Second))
		on(t, "systemctl start hostpath-provisioner.service") // it has waited for the disk in vain
	})
}

// diskUnit is systemd's name of the disk's mount.
const diskUnit = "var-hpvolumes-disk.mount"

// boots boots the machine in a way, and returns when that began.
func boots(t *testing.T, boot func(context.Context) error) time.Time {
	t.Helper()
	now := time.Now()
	if err := boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("booted after %s", time.Since(now).Round(time.Second))
	return now
}

// agentLog prints the log of this boot's agent, which writes it into a file of its own.
const agentLog = "find /var/log/pods/" + namespace + "_*/ -name '*.log' -newermt \"$(uptime -s)\" -exec cat {} +"

// withoutDisk wants an agent that says what it waits for, pods that wait, and nothing on the
// system's disk.
func withoutDisk(t *testing.T) {
	t.Helper()
	want(t, "systemctl is-failed "+diskUnit+"; systemctl is-active hostpath-provisioner.service kubelet.service; true", "failed\ninactive\nactive")
	awaitWords(t, soon, agentLog, "its disk must be mounted at "+disk, "")
	awaitWords(t, soon, "cat /var/log/pods/default_boot-*/*/*.log; journalctl -b -u kubelet.service | grep 'boot-host.*hostPath type check failed'; true", "hostPath type check failed", "")
	want(t, "ls -A "+disk, "")
}

// againServed waits until the pods have written once more than before, and brings the numbers up to
// date.
func againServed(t *testing.T, before map[string]string) {
	t.Helper()
	want(t, "getenforce", "Enforcing")
	want(t, "findmnt -no FSTYPE "+disk, "xfs")
	want(t, "ls -Zd "+disk+" | cut -d: -f3", "container_file_t")
	for dir := range before {
		err := machine.Poll(t.Context(), 2*soon, func() error { // its agent starts first, and the kubelet then waits longer from try to try
			now := written(t, dir)
			if now == before[dir] {
				return fmt.Errorf("the pod of %s has not started again; its volume has %s lines", dir, now)
			}
			before[dir] = now
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if err := agentReady(); err != nil {
		t.Error(err)
	}
	for dir := range before { // XFS lets a process with this capability exceed its quota
		fill := "f=$(echo " + dir + ")/fill; "
		wantRefused(t, fill+"setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource dd if=/dev/zero bs=1M count=80 of=$f", "No space left on device")
		on(t, fill+"rm $f")
	}
	out := on(t, "cat /var/log/pods/"+namespace+"_*/*/*.log") // the API server has no way to the kubelet
	for _, word := range []string{"lost", "VolumeMissing", "orphan"} {
		if strings.Contains(out, word) {
			t.Errorf("the agent's log has %q:\n%s", word, out)
		}
	}
}

// entered returns when the unit became active, in microseconds after the boot.
func entered(t *testing.T, unit string) int {
	t.Helper()
	var at int
	for _, digit := range on(t, "systemctl show -p ActiveEnterTimestampMonotonic --value "+unit) {
		at = at*10 + int(digit-'0')
	}
	return at
}
