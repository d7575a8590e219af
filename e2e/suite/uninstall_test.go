package suite

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// kinds are those of everything that the forms and their users create, but for pods, whose
// DaemonSets own them.
const kinds = "namespaces,nodes,pv,pvc,daemonsets,deployments,serviceaccounts,configmaps,roles,rolebindings,clusterroles,clusterrolebindings," +
	"storageclasses,csidrivers,resourcequotas,networkpolicies,customresourcedefinitions," +
	"validatingadmissionpolicies,validatingadmissionpolicybindings"

// Every pair of forms that can run at once: one is uninstalled as its page says, and nothing but
// its own objects changes. All of them are installed at the same time, so that each uninstall shows
// all of its pairs.
func TestUninstall(t *testing.T) {
	t.Parallel()
	u := &uninstaller{Scene: ownPlane(t).Scene(t)}
	together := []string{"legacy", "csi", "local-pv", "local-path", "policy"}
	u.apply(together...)
	u.usersObjects()
	for _, form := range together {
		u.removesItself(form)
		u.apply(form)
	}
	for _, form := range []string{"legacy", "csi"} { // the operator takes their place
		u.removesItself(form)
	}
	u.must(u.run("kubectl delete csidriver " + harness.Driver))

	others := u.all()
	u.Kubelets(func(string) bool { return false })
	u.Node("01")
	u.Operator()
	u.installOperated()
	for _, form := range []string{"local-pv", "local-path", "policy"} {
		own := u.removesItself(form)
		u.apply(form)
		now := u.all()
		for id := range own {
			others[id] = now[id]
		}
	}
	u.removesOperator(others)
}

// uninstaller runs the commands of the pages.
type uninstaller struct{ *harness.Scene }

func (u *uninstaller) must(out string, err error) string {
	u.Helper()
	if err != nil {
		u.Fatalf("%v\n%s", err, out)
	}
	return out
}

// run runs a command of a page in the directory of the manifests, with the kubectl of the tests.
func (u *uninstaller) run(command string) (string, error) {
	u.Helper()
	kubectl := u.Plane.Binaries().Path("kubectl")
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "KUBECONFIG="+u.Plane.Kubeconfig(), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", command, err)
	}
	return string(out), err
}

func (u *uninstaller) apply(forms ...string) {
	u.Helper()
	for _, form := range forms {
		u.must(u.run("kubectl apply -k manifests/" + form))
	}
}

// usersObjects creates what an uninstall must never touch: the claim of a pool, a claim, and a PV
// of each kind.
func (u *uninstaller) usersObjects() {
	u.Helper()
	o := &operated{Scene: u.Scene}
	o.pv("of-csi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "of-csi"}})
	o.pv("of-path", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/legacy/pvc-1"}})
	for namespace, name := range map[string]string{harness.Namespace: "hpp-pool-array-node-01", u.Namespace: "data"} {
		class := "of-no-claim"
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubevirt.io.hostpath-provisioner/storagePool": "array-hpp"}},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				VolumeName: "absent",
				Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		}
		if _, err := u.Client.CoreV1().PersistentVolumeClaims(namespace).Create(u.Context(), claim, metav1.CreateOptions{}); err != nil {
			u.Fatal(err)
		}
	}
}

// ofEachNamespace are objects that Kubernetes and the suite keep, whose UIDs say nothing.
var ofEachNamespace = regexp.MustCompile(`kube-root-ca.crt|^ServiceAccount/[^/]*/default$`)

// columns has kind, namespace, name, UID and the time of the deletion of each object.
const columns = `-o jsonpath='{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.uid}{.metadata.deletionTimestamp}{"\n"}{end}'`

// all returns the UIDs of all objects.
func (u *uninstaller) all() map[string]string {
	u.Helper()
	return parse(u.must(u.run("kubectl get " + kinds + " -A " + columns)))
}

func parse(out string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(out) {
		if id, uid, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !ofEachNamespace.MatchString(id) {
			found[id] = uid
		}
	}
	return found
}

// removesItself uninstalls a form as its page says, compares all objects of the cluster, and
// returns those of the form.
func (u *uninstaller) removesItself(form string) (own map[string]string) {
	u.Helper()
	page, uninstall := "install.md", "manifests/uninstall/"+form
	switch form {
	case "local-pv":
		page = "raw-disks.md"
	case "policy":
		uninstall = "manifests/policy"
	}
	commands := u.commands(page)
	for i, c := range commands {
		commands[i] = strings.ReplaceAll(c, "manifests/uninstall/csi", uninstall)
	}
	own = parse(u.must(u.run("kubectl get -k " + uninstall + " " + columns)))
	before := u.all()
	if len(own) < 4 {
		u.Fatalf("%s: its own objects are %v", form, own)
	}
	for _, c := range commands {
		u.must(u.run(c))
	}
	maps.DeleteFunc(before, func(id, _ string) bool { _, ok := own[id]; return ok })
	u.Eventually(form+" is gone", func() error { return sameObjects(u.all(), before) })
	return own
}

// sameObjects returns nil if both have the same objects.
func sameObjects(got, want map[string]string) error {
	for id, uid := range want {
		if got[id] != uid {
			return fmt.Errorf("%s is %q, want %q", id, got[id], uid)
		}
	}
	for id := range got {
		if want[id] == "" {
			return fmt.Errorf("%s is there", id)
		}
	}
	return nil
}

// line returns the line of a page that begins with these words.
func (u *uninstaller) line(page, words string) string {
	u.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		u.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, words) {
			return line
		}
	}
	u.Fatalf("docs/%s has no line that begins with %q", page, words)
	return ""
}

// commands returns the commands of the first block in the section Uninstall of a page, and with one
// more argument, of that block.
func (u *uninstaller) commands(page string, block ...int) []string {
	u.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		u.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Uninstall\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	n := 0
	if len(block) > 0 {
		n = block[0]
	}
	if len(blocks) <= n {
		u.Fatalf("docs/%s: the section Uninstall has %d blocks of commands", page, len(blocks))
	}
	lines := strings.Split(strings.TrimSpace(blocks[n][1]), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// installOperated creates a resource, and waits until its agents are there.
func (u *uninstaller) installOperated() {
	u.Helper()
	o := &operated{Scene: u.Scene}
	o.create(serving, pools("local=/srv/local"))
	o.healthy()
}

// removesOperator uninstalls the operator as its page says, by force because PVs are in use. What
// was there before it stays, and the definition goes only with the commands of their own.
func (u *uninstaller) removesOperator(others map[string]string) {
	u.Helper()
	u.must(u.run("kubectl annotate hostpathprovisioner --all hostpathprovisioner.kubevirt.io/force-deletion=true"))
	for _, c := range u.commands("operator.md") {
		u.must(u.run(c))
	}
	definition := "CustomResourceDefinition//hostpathprovisioners.hostpathprovisioner.kubevirt.io"
	left := u.all()
	if left[definition] == "" {
		u.Errorf("the definition is gone")
	}
	for id, uid := range others {
		if left[id] != uid {
			u.Errorf("%s is %q after the uninstall, want %q", id, left[id], uid)
		}
	}
	for _, c := range u.commands("operator.md", 1) {
		u.must(u.run(c))
	}
	// The quota stays for holders, and the record of pools stays after a deletion by force.
	u.must(u.run("kubectl -n " + harness.Namespace + " delete resourcequota/hostpath-provisioner-operator configmap/hostpath-provisioner-pools"))
	u.Within(time.Minute, "only the others are left", func() error {
		left := u.all()
		maps.DeleteFunc(left, func(id, _ string) bool { return slices.Contains([]string{"Node"}, strings.SplitN(id, "/", 2)[0]) })
		wanted := maps.Clone(others)
		maps.DeleteFunc(wanted, func(id, _ string) bool { return strings.HasPrefix(id, "Node/") })
		return sameObjects(left, wanted)
	})
}
