package machine_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"
)

func TestBooted(t *testing.T) {
	t.Log(on(t, ". /etc/os-release; echo $PRETTY_NAME; uname -r; systemctl --version | head -1; getenforce; stat -fc %T /sys/fs/cgroup"))
	want(t, "getenforce; stat -fc %T /sys/fs/cgroup; systemctl is-system-running", "Enforcing\ncgroup2fs\nrunning")
}

// The unit labels the disk's directory, before anything that starts pods.
func TestUnitLabels(t *testing.T) {
	want(t, "ls -dZ "+disk+" | cut -d: -f3", "container_file_t")
	want(t, "systemctl is-active hostpath-provisioner.service; systemctl is-enabled hostpath-provisioner.service", "active\nenabled")
	before := on(t, "systemctl show -p Before --value hostpath-provisioner.service")
	for _, unit := range []string{"kubelet.service", "containerd.service"} {
		if !strings.Contains(before, unit) {
			t.Errorf("the unit is not before %s: %s", unit, before)
		}
	}
}

// Without enforcement the unit does the same. Where a filesystem keeps no labels it fails, and
// systemctl lists it.
func TestUnitElsewhere(t *testing.T) {
	const settings = "/etc/default/hostpath-provisioner"
	t.Cleanup(func() {
		on(t, "setenforce 1; rm -f "+settings+"; umount /run/labelled /run/fixed; systemctl restart hostpath-provisioner.service")
	})
	on(t, "mkdir -p /run/labelled /run/fixed && mount -t tmpfs tmpfs /run/labelled && mount -t tmpfs -o context=system_u:object_r:tmp_t:s0 tmpfs /run/fixed")
	on(t, "setenforce 0 && echo PV_DIR=/run/labelled >"+settings+" && systemctl restart hostpath-provisioner.service")
	want(t, "getenforce; stat -c %C /run/labelled | cut -d: -f3", "Permissive\ncontainer_file_t")
	on(t, "setenforce 1 && echo PV_DIR=/run/fixed >"+settings)
	wantRefused(t, "systemctl restart hostpath-provisioner.service", "failed")
	wantWords(t, "systemctl --failed --plain --no-legend", "hostpath-provisioner.service", "")
	want(t, "systemctl is-active kubelet.service", "active")
}

// claim is a claim, with an annotation or "".
func claim(name, class, annotation string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s, annotations: {%s}}
spec:
  storageClassName: %s
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
`, name, annotation, class)
}

// writer is a pod that runs a command once, and stays. level are its SELinux categories; "" lets
// the runtime choose. mounts and volumes are lists.
func writer(name, level, command, mounts, volumes string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  securityContext: {seLinuxOptions: {level: %q}}
  containers:
  - name: main
    image: localhost/hpp-e2e/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "trap 'exit 0' TERM; %s && sync && touch /tmp/ready; sleep 100000 & wait"]
    readinessProbe: {exec: {command: [cat, /tmp/ready]}, periodSeconds: 2, timeoutSeconds: 20}
    volumeMounts: [%s]
  terminationGracePeriodSeconds: 1
  volumes: [%s]
`, name, level, command, mounts, volumes)
}

// pod is a claim, and a pod that writes its own label into its volume.
func pod(name, class, level string) string {
	return claim(name, class, "") + writer(name, level, "cat /proc/self/attr/current >>/data/who && echo >>/data/who",
		"{name: data, mountPath: /data}", "{name: data, persistentVolumeClaim: {claimName: "+name+"}}")
}

// classes are the classes of the two backends, by the name of the claim and the pod of each.
var classes = map[string]string{"host": "hostpath-provisioner", "csi": "hostpath-csi"}

// start creates a claim and its pod for each backend, with the SELinux level of its name, and waits
// until they are ready.
func start(t *testing.T, prefix string, levels map[string]string) {
	t.Helper()
	for name, class := range classes {
		do(t, pod(prefix+name, class, levels[name]), "apply", "-f", "-")
		t.Cleanup(func() {
			if t.Failed() {
				out, _ := guest.Plane().Kubectl("", "describe", "pod", prefix+name)
				t.Log(out)
			}
		})
	}
	for name := range classes {
		do(t, "", "wait", "--for=condition=Ready", "pod/"+prefix+name, "--timeout="+soon.String())
	}
}

// directory returns the directory of a claim's volume on the machine.
func directory(t *testing.T, claim string) string {
	t.Helper()
	pv := strings.TrimSpace(do(t, "", "get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}"))
	return on(t, "find "+disk+"/*/ -maxdepth 1 -name '*"+pv+"*' -type d")
}

// Containers with categories write into volumes of both backends. The kubelet lets the runtime
// label a CSI volume for its pod, and a hostPath volume stays as the agent labelled it. The agent
// deletes files of any category.
func TestPods(t *testing.T) {
	start(t, "pods-", map[string]string{"host": "s0:c1,c2", "csi": "s0:c1,c2"})
	labels := map[string]string{"host": "container_file_t:s0", "csi": "container_file_t:s0:c1,c2"}
	dirs := map[string]string{}
	for name, label := range labels {
		dirs[name] = directory(t, "pods-"+name)
		want(t, "stat -c %C "+dirs[name]+" | cut -d: -f3-; cut -d: -f3- "+dirs[name]+"/who | tr -d '\\000'", label+"\ncontainer_t:s0:c1,c2")
	}
	want(t, "ps -eo label,args | grep ' /hostpath-[p]rovisioner' | cut -d: -f3", "spc_t") // it made the volumes, so it runs
	refusals := "grep -ac 'denied.*scontext=system_u:system_r:spc_t' /var/log/audit/audit.log || true"
	want(t, refusals, "0")

	// What the runtime labelled for one pod is closed to a process with other categories.
	want(t, reading(dirs["csi"]+"/who", "s0:c1,c2"), "0")
	want(t, reading(dirs["csi"]+"/who", "s0:c3,c4"), "1")
	for name := range labels {
		do(t, "", "delete", "pod/pods-"+name, "pvc/pods-"+name)
		awaitWords(t, time.Minute, "ls "+path.Dir(dirs[name])+" && echo listed", "listed", path.Base(dirs[name]))
	}
	want(t, refusals, "0")
}

// reading is a script that prints the exit status of a process that reads a file as a container
// with those categories does. It does not come by the way of the directories above, as a container
// does not, and may not write to the session's pipes.
func reading(file, level string) string {
	dir, name := path.Split(file)
	return "cd " + dir + " && runcon system_u:system_r:container_t:" + level + " " + confined + " cat " + name + "; echo $?"
}

// A relabel takes the type of volumes, where the policy does not list it as customizable. Inspect
// shows that, and the unit gives the type back if it is asked to: not to what carries a pod's
// categories, and not to another filesystem.
func TestRelabel(t *testing.T) {
	do(t, claim("relabel", "hostpath-provisioner", "kubevirt.io/provisionOnNode: node-01"), "apply", "-f", "-")
	do(t, "", "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/relabel", "--timeout="+soon.String())
	dir := directory(t, "relabel")
	t.Cleanup(func() { do(t, "", "delete", "pvc/relabel") })
	on(t, "cd "+dir+" && mkdir sub mounted && echo text >sub/file && echo secret >kept && chcon -l s0:c7,c8 kept")
	labels := "cd " + dir + " && stat -c '%n %C' . sub sub/file mounted kept mounted/file 2>/dev/null | sed 's/[a-z_]*:object_r://'; true"
	const ours, lost = "container_file_t:s0", "var_t:s0"
	all := func(label string) string {
		return ". " + label + "\nsub " + label + "\nsub/file " + label
	}
	want(t, labels, all(ours)+"\nmounted "+ours+"\nkept "+ours+":c7,c8")
	inspect := "hostpath-provisioner inspect " + dir + "/.."
	wantWords(t, inspect, "", "SELinux may keep")
	want(t, reading(dir+"/sub/file", "s0:c1,c2"), "0")

	on(t, "restorecon -R "+dir+" && restorecon "+disk)
	want(t, "cd "+dir+" && cp --preserve=context kept forced && stat -c %C forced && restorecon -F forced && stat -c %C forced; rm forced",
		"unconfined_u:object_r:"+lost+":c7,c8\nsystem_u:object_r:"+lost) // force takes the categories too
	on(t, "mount -t tmpfs -o rootcontext=system_u:object_r:"+lost+" tmpfs "+dir+"/mounted && echo text >"+dir+"/mounted/file")
	t.Cleanup(func() { on(t, "umount "+dir+"/mounted") })
	theirs := "\nmounted " + lost + "\nkept " + lost + ":c7,c8\nmounted/file " + lost
	want(t, labels, all(lost)+theirs)
	wantWords(t, inspect, "SELinux may keep containers out of volumes, whose type is not container_file_t: "+path.Base(dir)+" (", "")
	want(t, reading(dir+"/sub/file", "s0:c1,c2"), "1")
	wantWords(t, "grep 'denied.*scontext=system_u:system_r:container_t.*"+lost+"' /var/log/audit/audit.log | tail -n 1", "read", "")

	on(t, "echo RELABEL=volumes >/etc/default/hostpath-provisioner && systemctl restart hostpath-provisioner.service; rm /etc/default/hostpath-provisioner")
	want(t, labels, all(ours)+theirs)
	want(t, "stat -c %C "+disk+" | cut -d: -f3", "container_file_t")
	want(t, reading(dir+"/sub/file", "s0:c1,c2"), "0")
	wantWords(t, "journalctl -b -u hostpath-provisioner.service", "labels "+disk+"/volumes/"+path.Base(dir)+", which has ", "")
	wantWords(t, inspect, "", "SELinux may keep")
	want(t, "findmnt -no TARGET /mnt; true", "")
}
