package suite

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// dry asks the API server, admission and all, and changes nothing.
var dry = []string{metav1.DryRunAll}

// deed is something that an agent of one node tries, and the words with which it is refused; none
// where it may.
type deed struct {
	name, words string
	do          func(context.Context, kubernetes.Interface) error
}

// try does each deed with the permissions of the kubeconfig.
func try(s *harness.Scene, kubeconfig string, deeds []deed) {
	s.Helper()
	client := s.As(kubeconfig)
	for _, d := range deeds {
		switch err := d.do(s.Context(), client); {
		case d.words == "" && err != nil:
			s.Errorf("%s: %v", d.name, err)
		case d.words != "" && (!apierrors.IsForbidden(err) || !regexp.MustCompile(d.words).MatchString(err.Error())):
			s.Errorf("%s: %v, want it forbidden with words like %q", d.name, err, d.words)
		}
	}
}

// The policies of manifests/policy on an API server, with agents whose tokens are bound to pods of
// their nodes.
func TestPolicy(t *testing.T) {
	t.Parallel()
	e := ownPlane(t)
	if err := e.Apply("policy"); err != nil {
		t.Fatal(err)
	}
	s := e.Scene(t)
	a, b := s.Node("01"), s.Node("02")
	kubeconfig := s.PodKubeconfig(s.AgentPod(a, harness.CSIAccount))
	// The API server takes a moment until it heeds a new policy.
	s.Eventually("policies in force", func() error { return inForce(s, s.As(kubeconfig), b) })
	try(s, kubeconfig, unlistedPools(s, a))
	listPools(s)
	s.Eventually("pools listed", func() error { return createPV(hostPathPVOf(s, a))(s.Context(), s.As(kubeconfig)) })
	scene := func(t *testing.T) *harness.Scene {
		own := e.Scene(t)
		listPools(own)
		return own
	}
	deeds := func(run func(*harness.Scene, harness.Node, harness.Node, string)) func(*testing.T) {
		return func(t *testing.T) { run(e.Scene(t), a, b, kubeconfig) }
	}
	atOnce(t, map[string]func(*testing.T){
		"PVs":                deeds(pvDeeds),
		"claims":             deeds(claimDeeds),
		"capacity":           deeds(capacityDeeds),
		"life":               func(t *testing.T) { policedLife(scene(t)) },
		"give back":          func(t *testing.T) { policedGiveBack(scene(t)) },
		"older PVs":          func(t *testing.T) { policedSweep(scene(t)) },
		"hostname":           func(t *testing.T) { policedHostname(scene(t)) },
		"other provisioners": func(t *testing.T) { policedMigration(scene(t), b) },
		"disks":              func(t *testing.T) { diskDeeds(e.Scene(t), a, b) },
		"leases of disks":    func(t *testing.T) { leaseDeeds(e.Scene(t), a, b) },
		"life of a disk":     func(t *testing.T) { policedDisk(e.Scene(t)) },
		"no node":            func(t *testing.T) { unboundToken(e.Scene(t), a) },
	})
	diskPattern(e.Scene(t), a)
}

// unlistedPools are PVs in directories of pools while the administrator has listed none.
func unlistedPools(s *harness.Scene, node harness.Node) []deed {
	in := func(dir string) func(context.Context, kubernetes.Interface) error {
		return createPV(spoilt(hostPathPVOf(s, node), path(func(_, name string) string { return dir + "/" + name })))
	}
	return []deed{
		{"in a directory of the manifests", "", in("/var/hpvolumes")},
		{"in one of another form", "", in("/var/lib/rancher/k3s/storage")},
		{"in a directory that is not listed", noPool, in(node.Pool)},
		{"in one of the kubelet", noPool, in("/var/lib/kubelet/plugins_registry")},
	}
}

// listPools has the administrator list the pools of the scene's nodes.
func listPools(s *harness.Scene) {
	s.Helper()
	api := s.Client.CoreV1().ConfigMaps(harness.Namespace)
	err := retry.RetryOnConflict(wait.Backoff{Duration: 50 * time.Millisecond, Steps: 100}, func() error {
		cm, err := api.Get(s.Context(), "hostpath-provisioner-hostnames", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		dirs := append(strings.Split(cm.Data["POOL_DIRS"], ","), s.Path("pools", "pool-01"), s.Path("pools", "pool-02"))
		cm.Data["POOL_DIRS"] = strings.Join(dirs, ",")
		_, err = api.Update(s.Context(), cm, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// inForce returns nil where each of the policies refuses something.
func inForce(s *harness.Scene, client kubernetes.Interface, other harness.Node) error {
	claim := s.Create(harness.Claim{Class: "none", Selected: other.Name})
	for _, err := range []error{
		createPV(csiPVOf(s, other))(s.Context(), client),
		putCapacity(capacityFor(other))(s.Context(), client),
		editClaim(claim, func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, harness.AnnSelectedNode) })(s.Context(), client),
	} {
		if !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("not yet"), err)
		}
	}
	return nil
}

// unboundToken: a token of the account that says no node, as anybody gets it who may ask for
// tokens.
func unboundToken(s *harness.Scene, node harness.Node) {
	const words = `has to be of a pod on a node`
	claim := s.Create(harness.Claim{Class: "none"})
	try(s, s.CSIKubeconfig, []deed{
		{"a PV", words, createPV(csiPVOf(s, node))},
		{"capacity", words, putCapacity(capacityFor(node))},
		{"a claim", words, editClaim(claim, func(*corev1.PersistentVolumeClaim) {})},
	})
	try(s, s.Kubeconfig, []deed{{"a hostPath PV", words, createPV(hostPathPVOf(s, node))}})
	try(s, s.DisksKubeconfig, []deed{{"a PV of a disk", words, createPV(diskPVOf(s, node))}})
}

// hostPathPVOf and csiPVOf are PVs of the node as its agent would make them; nothing is on the
// disk.
func hostPathPVOf(s *harness.Scene, node harness.Node) *corev1.PersistentVolume {
	return handmadePV(s, &harness.Agent{Node: node, Pool: node.Pool}, uuid.NewUUID(), "claim")
}

func csiPVOf(s *harness.Scene, node harness.Node) *corev1.PersistentVolume {
	return handmadeCSI(s, &harness.Agent{Node: node, Pool: node.Pool}, uuid.NewUUID(), "claim")
}

// createPV would make the PV.
func createPV(pv *corev1.PersistentVolume) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{DryRun: dry})
		return err
	}
}

// patchPV would change the PV by a merge patch.
func patchPV(pv *corev1.PersistentVolume, patch string, values ...any) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType,
			fmt.Appendf(nil, patch, values...), metav1.PatchOptions{DryRun: dry})
		return err
	}
}

// deletePV would delete the PV.
func deletePV(pv *corev1.PersistentVolume) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		return client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{DryRun: dry})
	}
}

// editClaim would write the changed claim.
func editClaim(claim *corev1.PersistentVolumeClaim, edit func(*corev1.PersistentVolumeClaim)) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		claims := client.CoreV1().PersistentVolumeClaims(claim.Namespace)
		now, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(now)
		_, err = claims.Update(ctx, now, metav1.UpdateOptions{DryRun: dry})
		return err
	}
}

// patchStatus would change the claim's status by a merge patch.
func patchStatus(claim *corev1.PersistentVolumeClaim, patch string) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{DryRun: dry}, "status")
		return err
	}
}

// capacityFor is what an agent of the node publishes.
func capacityFor(node harness.Node) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name + ".hostpath-csi", Namespace: harness.Namespace, Labels: map[string]string{harness.LabelNode: node.Name},
		},
		StorageClassName: harness.ClassCSI,
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{harness.TopologyNode: node.Name}},
	}
}

// putCapacity would make the object.
func putCapacity(o *storagev1.CSIStorageCapacity) func(context.Context, kubernetes.Interface) error {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.StorageV1().CSIStorageCapacities(o.Namespace).Create(ctx, o, metav1.CreateOptions{DryRun: dry})
		return err
	}
}
