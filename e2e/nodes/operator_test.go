package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	operatorKind = "hostpathprovisioner"
	// operatorResource is a resource as the older operator has it, for both kinds of volumes.
	operatorResource = `
apiVersion: hostpathprovisioner.kubevirt.io/v1beta1
kind: HostPathProvisioner
metadata: {name: hostpath-provisioner}
spec:
  pathConfig: {path: /var/hpvolumes}
  workload: {tolerations: [{operator: Exists}]}
`
	operatorPool = "legacy" // as the older operator names the pool of a pathConfig
	operatorName = operatorKind + "/hostpath-provisioner"
	managedBy    = "app.kubernetes.io/managed-by=hostpath-provisioner-operator"
)

// The operator takes over from an older one on two nodes, under pods that run: their containers
// stay the same until their claims are deleted. Each step leaves the cluster for the next one.
//
// With -short, the older operator's driver has no provisioner sidecar, which takes minutes to build:
// the CSI volume is written as that sidecar leaves it.
func TestOperator(t *testing.T) {
	replacingAgents(t)
	standInImage(t)
	if !testing.Short() {
		loadSidecar(t)
	}
	t.Cleanup(func() { operatorAway(t, "uninstall/operator") }) // raw disks are in the namespace
	s := newScene(t)
	operatorOlder(s)
	users := []operatorUser{operatorWriter(s, one, s.Create(harness.Claim{Node: one.Name})), operatorWriter(s, other, operatorCSI(s))}
	for _, step := range []struct {
		name string
		run  func(*harness.Scene)
	}{
		{"takes over", operatorTakesOver},
		{"claims", operatorClaims},
		{"refuses", operatorRefuses},
		{"repairs", operatorRepairs},
		{"rolls", operatorRolls},
		{"waits", func(s *harness.Scene) { operatorWaits(s, users) }},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			scene := *s
			scene.TB = t
			step.run(&scene)
			for _, u := range users {
				u.writesOn(&scene)
			}
		})
		if !ok {
			t.FailNow()
		}
	}
	for _, u := range users {
		end(s, u.pod)
		s.Delete(u.claim)
		s.Gone(harness.PVName(u.claim))
	}
	s.Eventually("the resource gone", func() error {
		text, err := kubectl("", "get", operatorKind, "-o", "yaml", "--ignore-not-found")
		if err == nil && strings.Contains(text, "finalizers") {
			err = errors.New(text)
		}
		return err
	})
	for _, of := range []string{"csidriver/" + csiDriver, "-n=" + harness.Namespace + " daemonset/" + csiSet, "csinodes -o=jsonpath={.items[*].spec.drivers[*].name}"} {
		if left, err := kubectl("", append([]string{"get", "--ignore-not-found"}, strings.Fields(of)...)...); err != nil || left != "" {
			t.Errorf("%s: left %q, %v", of, left, err)
		}
	}
}

// operatorOlder installs what an older operator does for the resource: a DaemonSet for each kind of
// volumes.
func operatorOlder(s *harness.Scene) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "swapin.yaml"))
	must(s, "read the older objects", err)
	legacy := strings.NewReplacer(`"name":"local"`, `"name":"`+operatorPool+`"`, "storagePool: local", "storagePool: "+operatorPool).Replace(string(text))
	if testing.Short() {
		before, rest, _ := strings.Cut(legacy, "        - name: csi-provisioner\n")
		_, after, found := strings.Cut(rest, "      volumes:\n")
		if !found {
			s.Fatal("the older driver has no csi-provisioner, or it is not its last container")
		}
		legacy = before + "      volumes:\n" + after
	}
	_, err = kubectl(legacy, "apply", "-f", "-")
	must(s, "apply the older objects", err)
	for _, file := range []string{"daemonset", "rbac", "serviceaccount"} {
		_, err := kubectl("", "label", "-f", filepath.Join(root, "manifests", "legacy", file+".yaml"), managedBy)
		must(s, "label the older objects", err)
	}
	_, err = kubectl("", "-n", harness.Namespace, "rollout", "status", "daemonset/"+csiSet, "--timeout=180s")
	must(s, "older agents", err)
}

// operatorUser is a pod that writes into a volume while the agents change.
type operatorUser struct {
	node   *cluster.Node
	claim  *corev1.PersistentVolumeClaim
	pod    *corev1.Pod
	volume string // its directory, below that of all volumes
}

// operatorCSI is a claim that the older driver serves on the other node.
func operatorCSI(s *harness.Scene) *corev1.PersistentVolumeClaim {
	s.Helper()
	if testing.Short() {
		return older(s, other, operatorPool)
	}
	return csiClaim(s)
}

func operatorWriter(s *harness.Scene, n *cluster.Node, claim *corev1.PersistentVolumeClaim) operatorUser {
	s.Helper()
	u := operatorUser{node: n, claim: claim, pod: pod{claim: claim.Name, hostname: n.Hostname, script: ticking}.run(s), volume: harness.PVName(claim)}
	if s.Bound(claim).Spec.CSI != nil {
		u.volume = filepath.Join("csi", u.volume)
	}
	return u
}

// writesOn checks that the pod writes, and that its container is the one that was started first.
func (u operatorUser) writesOn(s *harness.Scene) {
	s.Helper()
	writes(s, u.node, u.volume)
	now, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), u.pod.Name, metav1.GetOptions{})
	must(s, "read pod", err)
	if was, is := u.pod.Status.ContainerStatuses[0].ContainerID, now.Status.ContainerStatuses[0].ContainerID; was != is {
		s.Errorf("%s has container %s, before it was %s", u.pod.Name, is, was)
	}
}

// operatorDefined applies the definition of HostPathProvisioner and waits until it is served.
// "kubectl wait" fails while a definition has no conditions.
func operatorDefined(s *harness.Scene) {
	s.Helper()
	_, err := kubectl("", "apply", "--server-side", "-f", filepath.Join(root, "manifests", "operator", "hostpathprovisioner.kubevirt.io_hostpathprovisioners.yaml"))
	must(s, "apply the definition", err)
	s.Eventually("HostPathProvisioner served", func() error {
		_, err := kubectl("", "get", "hostpathprovisioners.hostpathprovisioner.kubevirt.io")
		return err
	})
}

// operatorTakesOver installs the operator. A claim of each kind that is made meanwhile is served
// once.
func operatorTakesOver(s *harness.Scene) {
	operatorDefined(s)
	_, err := kubectl(operatorResource, "apply", "-f", "-")
	must(s, "apply the resource", err)
	_, err = kubectl("", "apply", "-k", filepath.Join(root, "manifests", "operator"))
	must(s, "apply the operator", err)
	meanwhile := []*corev1.PersistentVolumeClaim{s.Create(harness.Claim{Node: one.Name}), csiClaim(s)}
	user := pod{claim: meanwhile[1].Name, hostname: one.Hostname, script: "touch /data/file"}.create(s)
	operatorComplete(s)
	for _, n := range local.Nodes() {
		if p := awaitDriver(s, n); len(p.Spec.Containers) != 1 {
			s.Errorf("%s: containers %+v", n.Name, p.Spec.Containers)
		}
	}
	for _, old := range []string{"daemonset/" + agentSet, "serviceaccount/" + harness.Account} {
		if left, err := kubectl("", "-n", harness.Namespace, "get", old, "--ignore-not-found"); err != nil || left != "" {
			s.Errorf("%s: %q, %v, want it gone", old, left, err)
		}
	}
	awaitReady(s, user.Name)
	end(s, user)
	for _, claim := range meanwhile {
		s.Bound(claim)
		s.Delete(claim)
		s.Gone(harness.PVName(claim))
	}
}

// operatorComplete waits until the resource's conditions are those of agents that are all ready.
func operatorComplete(s *harness.Scene) {
	s.Helper()
	s.Eventually("resource complete", func() error {
		text, err := kubectl("", "get", operatorName, "-o", "jsonpath={.status.conditions[0].reason}: {.status.conditions[0].message}, {.status.observedVersion}")
		if err == nil && !strings.HasPrefix(text, "Complete") {
			err = errors.New(text)
		}
		return err
	})
}

// operatorRefuses moves the directory, which the API server refuses with the names of the PVs.
func operatorRefuses(s *harness.Scene) {
	s.Eventually("refused", func() error {
		_, err := kubectl("", "patch", operatorName, "--type=merge", "--dry-run=server", "-p", `{"spec":{"pathConfig":{"path":"/var/moved"}}}`)
		for _, words := range []string{"hostPath volumes are in /var/hpvolumes, with 1 PV: pvc-", "pool legacy is in /var/hpvolumes, with 1 PV: pvc-"} {
			if err == nil || !strings.Contains(err.Error(), words) {
				return fmt.Errorf("no %q in %w", words, err)
			}
		}
		return nil
	})
}

// operatorRepairs deletes the DaemonSet and the CSIDriver, which are created again.
func operatorRepairs(s *harness.Scene) {
	must(s, "delete DaemonSet", s.Client.AppsV1().DaemonSets(harness.Namespace).Delete(s.Context(), csiSet, metav1.DeleteOptions{}))
	must(s, "delete CSIDriver", s.Client.StorageV1().CSIDrivers().Delete(s.Context(), csiDriver, metav1.DeleteOptions{}))
	s.Eventually("created again", func() error {
		_, err := s.Client.AppsV1().DaemonSets(harness.Namespace).Get(s.Context(), csiSet, metav1.GetOptions{})
		_, err2 := s.Client.StorageV1().CSIDrivers().Get(s.Context(), csiDriver, metav1.GetOptions{})
		return errors.Join(err, err2)
	})
	operatorComplete(s)
}

// operatorRolls replaces the operator's pods by ones with another setting, which replace the
// agents.
func operatorRolls(s *harness.Scene) {
	before := awaitDriver(s, one)
	_, err := kubectl("", "-n", harness.Namespace, "set", "env", "deployment/"+operatorSet, "VERBOSITY=2")
	must(s, "set the verbosity", err)
	_, err = kubectl("", "-n", harness.Namespace, "rollout", "status", "deployment/"+operatorSet, "--timeout=180s")
	must(s, "operators", err)
	s.Eventually("other agents", func() error {
		for _, n := range local.Nodes() {
			p, err := podOf(s, n, csiSet)
			if err == nil && (p.UID == before.UID || !isReady(p) || !strings.Contains(strings.Join(p.Spec.Containers[0].Args, " "), "--v=2")) {
				err = fmt.Errorf("%s is ready: %v, with arguments %q", p.Name, isReady(p), p.Spec.Containers[0].Args)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	operatorComplete(s)
}

// operatorWaits deletes the resource, which waits for the volumes and names them.
func operatorWaits(s *harness.Scene, users []operatorUser) {
	_, err := kubectl("", "delete", operatorName, "--wait=false")
	must(s, "delete the resource", err)
	s.Eventually("volumes named", func() error {
		text, err := kubectl("", "get", operatorName, "-o", "jsonpath={.status.conditions[0].reason}: {.status.conditions[0].message}")
		for _, u := range users {
			if err == nil && (!strings.HasPrefix(text, "VolumesInUse") || !strings.Contains(text, harness.PVName(u.claim))) {
				err = errors.New(text)
			}
		}
		return err
	})
}

// operatorSet is the name of the operator's Deployment.
const operatorSet = "hostpath-provisioner-operator"

// operatorAway removes what the manifests have, the operator or its namespace too, and what the
// operator installed. It gives the other tests their agent.
func operatorAway(t *testing.T, manifests string) {
	if t.Failed() {
		logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", "name="+operatorSet, "--prefix", "--tail=60")
		pods, _ := kubectl("", "-n", harness.Namespace, "get", "pods,daemonsets", "-o", "wide")
		resource, _ := kubectl("", "get", operatorName, "-o", "yaml")
		t.Logf("%s\n%s\noperators:\n%s", pods, resource, logs)
	}
	_, _ = kubectl("", "annotate", operatorName, "hostpathprovisioner.kubevirt.io/force-deletion=true") // it may be gone
	for _, args := range [][]string{
		{"delete", operatorKind, "--all", "--timeout=120s"},
		{"delete", "storageclass", csiClass, "--ignore-not-found"},
		{"delete", "-k", filepath.Join(root, "manifests", manifests), "--ignore-not-found", "--timeout=180s"},
	} {
		if _, err := kubectl("", args...); err != nil {
			t.Error(err)
		}
	}
	for _, n := range local.Nodes() {
		if _, err := onNode(n, "rm", "-rf", "/var/hpvolumes/csi"); err != nil {
			t.Error(err)
		}
	}
	redeploy(t)
}
