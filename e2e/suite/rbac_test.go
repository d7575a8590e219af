package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// auditPolicy has the API server write down what the agents' accounts ask for, and nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts:hostpath-provisioner"]
  - level: None
`

// audited is a control plane that writes down what agents ask for, and the path of that log.
func audited(t *testing.T) (*harness.Env, string) {
	t.Helper()
	dir := keptDir(t)
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return ownPlane(t, "--audit-policy-file="+policy, "--audit-log-path="+log, "--audit-log-mode=blocking-strict"), log
}

// named are the resources of which the rules have names.
var named = []string{"csidrivers", "daemonsets"}

// asked is what an account asked for, as "verb group/resource", with a name where the rules have
// one.
func asked(s *harness.Scene, log, account string) (allowed, refused map[string]bool) {
	s.Helper()
	file, err := os.Open(log)
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	allowed, refused = map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var e struct {
			Verb        string
			User        struct{ Username string }
			ObjectRef   struct{ Resource, Subresource, APIGroup, Name string }
			Annotations map[string]string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.Fatal(err)
		}
		if e.User.Username != "system:serviceaccount:"+harness.Namespace+":"+account || e.ObjectRef.APIGroup == "authorization.k8s.io" {
			continue
		}
		what := e.Verb + " " + e.ObjectRef.APIGroup + "/" + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		if slices.Contains(named, e.ObjectRef.Resource) {
			what += " " + e.ObjectRef.Name
		}
		if e.Annotations["authorization.k8s.io/decision"] == "allow" {
			allowed[what] = true
		} else {
			refused[what] = true
		}
	}
	return allowed, refused
}

// elsewhere is what an agent may and does not use here, and why.
var elsewhere = map[string]string{
	"update /persistentvolumeclaims":          "older agents give claims back by it",
	"list /persistentvolumeclaims":            "needed where the API server streams no lists",
	"list storage.k8s.io/storageclasses":      "the same",
	"list /nodes":                             "the same",
	"list /configmaps":                        "the same",
	"get coordination.k8s.io/leases":          "needed if another node has the disk",
	"get storage.k8s.io/csistoragecapacities": "an object is there already that no watch has brought",
}

// permitted is what rules allow, in the same words.
func permitted(rules ...rbacv1.PolicyRule) map[string]bool {
	all := map[string]bool{}
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			for _, verb := range r.Verbs {
				all[verb+" "+strings.Join(r.NonResourceURLs, " ")] = true
			}
			continue
		}
		what := strings.Join(append([]string{r.APIGroups[0] + "/" + r.Resources[0]}, r.ResourceNames...), " ")
		for _, verb := range r.Verbs {
			all[verb+" "+what] = true
		}
	}
	return all
}

// The names of the roles of manifests/legacy, manifests/csi and manifests/local-pv.
const (
	legacyRole = "hostpath-provisioner"
	csiRole    = "hostpath-provisioner-csi"
	disksRole  = "hostpath-provisioner-disks"
)

// rolesOf are the rules of the ClusterRole of that name, with the ones of its namespace unless it
// is manifests/legacy.
func rolesOf(s *harness.Scene, name string) []rbacv1.PolicyRule {
	s.Helper()
	role, err := s.Client.RbacV1().ClusterRoles().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if name == legacyRole {
		return role.Rules
	}
	own, err := s.Client.RbacV1().Roles(harness.Namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return slices.Concat(role.Rules, own.Rules)
}

// Over what claims do in their lives an agent uses all of what it may, and asks for nothing else.
func TestPermissionsAreUsed(t *testing.T) {
	t.Parallel()
	e, log := audited(t)
	for _, test := range []struct {
		name, account, role, mode string
	}{
		{"legacy", harness.Account, legacyRole, ""},
		{"csi", harness.CSIAccount, csiRole, "csi"},
		{"both", harness.CSIAccount, csiRole, "hostpath,csi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := e.Scene(t) // one after the other: two have one account
			if err := os.Truncate(log, 0); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			node := s.Node("01")
			o := harness.Options{CSI: test.mode}
			pod := s.AgentPod(node, test.account)
			o.Kubeconfig = s.PodKubeconfig(pod)
			o.Env = []string{"POD_NAME=" + pod.Name, "POD_NAMESPACE=" + harness.Namespace}
			if test.mode != "" {
				o.DataDir = harness.Datadir(harness.LocalPool, node.Pool)
			}
			useAll(s, s.Later(node, o), test.mode)
			wantUsed(s, log, test.account, rolesOf(s, test.role))
		})
	}
}

// wantUsed waits until the account has used all that the rules allow, and fails if it asked for
// anything else.
func wantUsed(s *harness.Scene, log, account string, rules []rbacv1.PolicyRule) {
	s.Helper()
	may := permitted(rules...)
	s.Eventually("all that is permitted is used", func() error {
		did, _ := asked(s, log, account)
		if unused := slices.DeleteFunc(slices.Sorted(maps.Keys(may)), func(what string) bool {
			return did[what] || elsewhere[what] != ""
		}); len(unused) > 0 {
			return fmt.Errorf("not used: %q", unused)
		}
		return nil
	})
	if _, refused := asked(s, log, account); len(refused) > 0 {
		s.Errorf("asked for in vain: %v", slices.Sorted(maps.Keys(refused)))
	}
}

// The process that offers disks uses all of what it may, and asks for nothing else, over the life
// of a disk.
func TestDisksPermissionsAreUsed(t *testing.T) {
	t.Parallel()
	e, log := audited(t)
	s := e.Scene(t)
	n := s.DiskNode("01")
	n.RestartAs(harness.Options{Disks: true, Kubeconfig: s.PodKubeconfig(s.AgentPod(n.Node, harness.DiskAccount))})
	n.AwaitReady()
	path := n.Link(s.Loop(diskMiB), "disk")
	pv := n.Offered(path)
	s.Delete(n.DiskClaim("c", pv))
	n.Offered(path, pv.UID)
	wantUsed(s, log, harness.DiskAccount, rolesOf(s, disksRole))
}

// useAll leads the agent through everything that it does.
func useAll(s *harness.Scene, a *harness.Agent, mode string) {
	s.Helper()
	claim := harness.Claim{Node: a.Node.Name}
	delayed := harness.Claim{Class: harness.ClassDelayed, Selected: a.Node.Name, Size: "1Pi"}
	if mode == "csi" {
		claim, delayed.Class = harness.Claim{Class: harness.ClassCSI, Selected: a.Node.Name}, harness.ClassCSI
	}
	// It adopts what others made: the PV and the claim are read, the PV labelled.
	first := s.Create(claim)
	pv := handmadePV(s, a, first.UID, first.Name)
	if mode == "csi" {
		pv = handmadeCSI(s, a, first.UID, first.Name)
	}
	pv.Labels, pv.Spec.StorageClassName = nil, *first.Spec.StorageClassName
	s.Write(filepath.Join(a.Pool, pv.Name), "data", nil)
	save(s, pv)
	s.Bound(first)
	a.Restart()
	a.AwaitReady()
	s.Eventually("adopted", func() error {
		if s.PV(pv.Name).Annotations[harness.AnnPool] == "" {
			return fmt.Errorf("annotations %v", s.PV(pv.Name).Annotations)
		}
		return nil
	})
	// A volume is made, grows, and goes.
	second := s.Create(claim)
	s.Bound(second)
	ask(s, second, "25Mi")
	wantSize(s, a, second, "25Mi")
	for _, c := range []*corev1.PersistentVolumeClaim{first, second} {
		s.Delete(c)
		s.Gone(harness.PVName(c))
	}
	// What does not fit is given back, and said again whenever it comes again.
	big := s.Create(delayed)
	for range 2 {
		s.Eventually("given back", func() error {
			if on := s.Read(big).Annotations[harness.AnnSelectedNode]; on != "" {
				return s.NotYet(big.UID, "the claim is still for %s", on)
			}
			return nil
		})
		if err := patchClaim(s, big, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, harness.AnnSelectedNode, a.Node.Name)); err != nil {
			s.Fatal(err)
		}
	}
	// What is nobody's is said by one agent.
	nobodys := s.Create(harness.Claim{Class: s.Class("nobodys", func(c *storagev1.StorageClass) {
		if mode == "csi" {
			c.Provisioner, c.Parameters = harness.Driver, map[string]string{harness.StoragePool: harness.LocalPool}
		}
	})})
	s.AwaitWarning(a, nobodys.UID, harness.ReasonFailed)
	if mode != "" {
		useCapacity(s, a)
	}
}

// useCapacity leads the agent through what it does with capacity objects.
func useCapacity(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	class := s.CSIClass("one", nil)
	objects := s.Client.StorageV1().CSIStorageCapacities(harness.Namespace)
	s.Eventually("published", func() error { _, err := s.Capacity(class, a.Node); return err })
	// Without its label it is found by its name alone.
	o := capacityOf(s, class, a.Node)
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, harness.LabelNode)
	if _, err := objects.Patch(s.Context(), o.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Eventually("labelled", func() error {
		if now := capacityOf(s, class, a.Node); now.Labels[harness.LabelNode] != a.Node.Name {
			return fmt.Errorf("labels %v", now.Labels)
		}
		return nil
	})
	if err := s.Client.StorageV1().StorageClasses().Delete(s.Context(), class, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Eventually("gone with its class", func() error {
		if found := s.Capacities(class, a.Node); len(found) > 0 {
			return fmt.Errorf("%d objects", len(found))
		}
		return nil
	})
}
