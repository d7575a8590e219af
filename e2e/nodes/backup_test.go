package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/pages"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// docs/backup.md by the letter: backups with tar and restic on the node and in pods, restored into a new
// claim, and into the claims of a namespace that was lost with its volumes. The CSI volumes are on a
// btrfs that holds them to their size, the hostPath volumes on this machine's disk, which does not.
func TestBackupInPods(t *testing.T) {
	s := &harness.Scene{TB: t, Env: env}
	d := newDisk(s, one, "btrfs", csiPool, 1<<30)
	t.Cleanup(func() {
		d.detach(s)
		undeployCSI(t)
		redeploy(t)
	})
	_, err := onNode(one, "mkdir", "-p", d.at)
	must(s, "make directory", err)
	must(s, "mount", d.mount())
	f := csiAlone
	f.apply = []string{"-k", filepath.Join("testdata", "quotas")}
	f.deploy(t)
	awaitDriver(s, one)
	loadBackupImage(t)
	csiTogether(t, "Group", map[string]csiRow{
		"csi":      func(_ *testing.T, s *harness.Scene) { followBackup(s, csiClass, csiPool, "10G") },
		"hostpath": func(_ *testing.T, s *harness.Scene) { followBackup(s, harness.ClassDelayed, "/var/hpvolumes", "256M") },
	})
}

// backup follows docs/backup.md with a claim of one class.
type backup struct {
	*reader
	pool string   // on the node
	sums bool     // run the comparisons, too; they read the holes of the image, which take minutes if it has 10 GiB
	vars []string // commands of the shell on the node that those after them need
	dir  string   // where the backups are: another storage
	want string   // what describe-files.sh says of the source
}

func followBackup(s *harness.Scene, class, pool, imageSize string) {
	b := &backup{reader: follow(s, "docs/backup.md"), pool: pool, dir: s.TempDir(), sums: pool != csiPool}
	b.replace = strings.NewReplacer("claims.yaml", filepath.Join(b.dir, "claims.yaml"))
	b.values = map[string]string{"NAMESPACE": s.Namespace, "CLAIM": "orders", "CLASS": class, "SIZE": "16Mi", "HOST": one.Hostname,
		"IMAGE": backupImage, "BACKUPS": "backups", "SECRET": "secret"}
	b.elsewhere()
	baseline(s)
	claim := s.Create(harness.Claim{Name: "orders", Class: class, Size: "16Mi"})
	end(s, pod{claim: claim.Name, hostname: one.Hostname, script: "true"}.run(s))
	source := filepath.Join(pool, s.Bound(claim).Name)
	b.script("tenant-files.sh", "SOURCE="+source, "IMAGE_SIZE="+imageSize)
	b.want = b.script("describe-files.sh", "DIR="+source)

	b.onTheNode(source)
	lost := b.inPods()
	b.rebuilt(claim, lost)
}

// script runs a script of TestDiskBackup on the node, and returns what it printed.
func (b *backup) script(name string, variables ...string) string {
	b.Helper()
	out, err := onNode(one, slices.Concat([]string{"env"}, variables, []string{"bash", filepath.Join(root, "volume", "testdata", name)})...)
	must(b.Scene, name, err)
	return out
}

// node runs the next commands, which must begin with those words, on the node as root.
func (b *backup) node(begins ...string) {
	b.Helper()
	commands := []string{"export RESTIC_PASSWORD=secret RESTIC_CACHE_DIR=" + filepath.Join(b.dir, "cache")}
	for _, words := range begins {
		text := strings.ReplaceAll(b.next(words).Fill(b.values), "=/backup/", "="+b.dir+"/node/")
		if strings.HasPrefix(text, "set -o") || (pages.Command{Text: text}).Sets() {
			b.vars = append(b.vars, text)
			continue
		}
		if words == "cd" && !b.sums {
			continue
		}
		commands = append(commands, text)
	}
	_, err := onNode(one, "bash", "-euc", strings.Join(slices.Concat(b.vars, commands), "\n"))
	must(b.Scene, b.page, err)
}

// restored checks that the directory has all that the source has, and empties it.
func (b *backup) restored(what, dir string) {
	b.Helper()
	if got := b.script("describe-files.sh", "DIR="+dir); got != b.want {
		b.Errorf("%s: restored\n%s\nwant\n%s", what, got, b.want)
	}
	out, err := onNode(one, "bash", "-euc", `cd "$0"; sync -f .; du -k disk.img; find . -mindepth 1 -delete`, dir)
	must(b.Scene, "empty", err)
	var kib int
	if _, err := fmt.Sscan(out, &kib); err != nil || kib > 2048 {
		b.Errorf("%s: the image takes %s, and had 1 MiB of data: %v", what, out, err)
	}
}

// onTheNode follows the steps 2 to 4. It leaves the claim restored with an empty volume.
func (b *backup) onTheNode(source string) {
	b.run("PV=")
	if path := strings.TrimSpace(b.run("kubectl get pv")); filepath.Base(path) != filepath.Base(source) || b.pool != csiPool && path != source {
		b.Errorf("step 2 prints %q, want %s", path, source)
	}
	want(b.Scene, b.run("kubectl get pv"), one.Name)
	b.values["DIRECTORY"] = source
	b.node("set -o pipefail", "SOURCE=", "BACKUP=", "mkdir", "tar")
	b.node("restic -q init", "tar")
	b.node("cd")
	b.run("kubectl -n NAMESPACE apply")
	b.run("kubectl -n NAMESPACE wait")
	target := filepath.Join(b.pool, b.Bound(claimNamed(b.Scene, "restored")).Name)
	b.values["DIRECTORY"] = target
	b.node("TARGET=", "tar")
	restic, compare := b.next("restic"), b.next("cd")
	b.rest = slices.Insert(b.rest, 0, compare)
	b.node("cd")
	b.restored("tar on the node", target)
	b.rest = slices.Insert(b.rest, 0, restic)
	b.node("restic")
	b.restored("restic on the node", target)
	b.holds(target)
	b.run("kubectl -n NAMESPACE delete pod holder")
}

// holds checks that the quota of a restored volume is in force on btrfs.
func (b *backup) holds(dir string) {
	b.Helper()
	if b.pool != csiPool {
		return // this machine's disk has no quotas
	}
	if _, err := onNode(one, "dd", "if=/dev/zero", "of="+dir+"/filler", "bs=1M", "count=32", "conv=fsync"); err == nil || !strings.Contains(err.Error(), "uota exceeded") {
		b.Errorf("32 MiB into a volume of 16: %v", err)
	}
	_, err := onNode(one, "rm", dir+"/filler")
	must(b.Scene, "remove", err)
}

// inPods follows step 5 into the claim restored, and returns the commands that restore.
func (b *backup) inPods() (restore []pages.Command) {
	const exec = "kubectl -n NAMESPACE exec "
	for _, begins := range []string{"create secret", "apply", "wait", "exec backup -- mkdir", "exec backup -- tar", "exec backup -- restic -q init",
		"exec backup -- bash -o pipefail", "exec backup -- bash -c", "delete pod backup"} {
		if begins == "exec backup -- bash -c" && !b.sums {
			b.skip("kubectl -n NAMESPACE "+begins, "the image is large")
			continue
		}
		b.run("kubectl -n NAMESPACE " + begins)
	}
	for _, begins := range []string{"kubectl -n NAMESPACE apply", "kubectl -n NAMESPACE wait", exec + "restore -- tar", exec + "restore -- bash -o pipefail",
		exec + "restore -- bash", "kubectl -n NAMESPACE delete pod restore"} {
		restore = append(restore, b.next(begins))
	}
	b.into("restored", restore)
	return restore
}

// into runs the commands that restore into a claim in a pod, with tar and then with restic.
func (b *backup) into(claim string, restore []pages.Command) {
	b.Helper()
	b.values["TARGET"] = claim
	run := func(i int) {
		b.Helper()
		_, err := b.shell(restore[i].Fill(b.values))
		must(b.Scene, b.page, err)
	}
	run(0)
	run(1)
	dir := filepath.Join(b.pool, b.Bound(claimNamed(b.Scene, claim)).Name)
	run(2)
	if b.sums {
		run(4)
	}
	b.restored("tar in a pod", dir)
	run(3)
	b.restored("restic in a pod", dir)
	b.holds(dir)
	run(5)
}

// rebuilt follows step 6: the namespace is deleted with its claims and volumes, and made again.
func (b *backup) rebuilt(claim *corev1.PersistentVolumeClaim, restore []pages.Command) {
	volume := harness.PVName(claim)
	b.set = nil // what they read is gone
	must(b.Scene, "delete namespace", goneKubectl("delete", "namespace", b.Namespace, "--timeout=5m"))
	b.Gone(volume)
	if _, err := onNode(one, "test", "!", "-e", filepath.Join(b.pool, volume)); err != nil {
		b.Errorf("the volume outlives its namespace: %v", err)
	}
	must(b.Scene, "delete PV", goneKubectl("delete", "pv", b.ClassName("backups")))
	manifest := fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s}\nspec:\n  storageClassName: %s\n"+
		"  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 16Mi}}\n", claim.Name, *claim.Spec.StorageClassName)
	must(b.Scene, "write", os.WriteFile(filepath.Join(b.dir, "claims.yaml"), []byte(manifest), 0o600))
	b.run("kubectl create namespace")
	baseline(b.Scene)
	b.elsewhere()
	b.run("kubectl -n NAMESPACE apply")
	b.run("kubectl -n NAMESPACE create secret")
	b.end()
	b.into(claim.Name, restore)
}

// elsewhere makes the claim backups, on a directory of this machine that both nodes have.
func (b *backup) elsewhere() {
	b.Helper()
	must(b.Scene, "make directory", os.MkdirAll(filepath.Join(b.dir, "backups"), 0o700))
	class := b.ClassName("backups")
	_, err := b.Client.CoreV1().PersistentVolumes().Create(b.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(b.dir, "backups")},
			},
		},
	}, metav1.CreateOptions{})
	must(b.Scene, "create PV", err)
	b.Cleanup(func() { _ = goneKubectl("delete", "pv", class, "--ignore-not-found", "--wait=false") })
	b.Create(harness.Claim{Name: "backups", Class: class})
}

// baseline has the namespace admit only what the Pod Security level of that name does.
func baseline(s *harness.Scene) {
	s.Helper()
	must(s, "label namespace", goneKubectl("label", "namespace", s.Namespace, "pod-security.kubernetes.io/enforce=baseline"))
}
