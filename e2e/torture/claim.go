package torture

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// kind is a way to ask for a volume.
type kind struct {
	class string
	// annotated claims name their node; a pod makes the scheduler choose that of any other.
	annotated bool
	policy    corev1.PersistentVolumeReclaimPolicy
}

// makeKinds makes the classes that the manifests do not have.
func (c *campaign) makeKinds() []kind {
	retain, grow := corev1.PersistentVolumeReclaimRetain, true
	edit := func(class *storagev1.StorageClass) { class.ReclaimPolicy, class.AllowVolumeExpansion = &retain, &grow }
	const freed = corev1.PersistentVolumeReclaimDelete
	return []kind{
		{harness.ClassImmediate, true, freed},
		{harness.ClassDelayed, true, freed},
		{harness.ClassDelayed, false, freed},
		{harness.ClassCSI, false, freed},
		{harness.ClassCSI, false, freed},
		{c.Class("kept", edit), true, retain},
		{c.CSIClass("kept-csi", edit), false, retain},
	}
}

// claim is one, and all that its tenant knows of it for certain. Nobody else touches it while the tenants work.
type claim struct {
	kind
	name string
	uid  types.UID
	size int64 // that is asked for
	// deleted: the API server has said that it is, or will be.
	deleted bool
	// policy is that of its PV, once there is one.
	policy corev1.PersistentVolumeReclaimPolicy
	// directory is where its data lies; "" until it was seen bound.
	directory string
	// files lie there, whole.
	files []string
}

func (cl *claim) pv() string { return "pvc-" + string(cl.uid) }

// kept reports whether its data must be there whatever happens.
func (cl *claim) kept() bool {
	return cl.directory != "" && (!cl.deleted || cl.policy == corev1.PersistentVolumeReclaimRetain)
}

// insist calls until the API server has answered, with a success or with what will not change by asking again. That
// it was asked several times may show in the answer.
func (c *campaign) insist(what string, call func(context.Context) error) error {
	const long = 3 * time.Minute // the API server is away for seconds
	for begin := time.Now(); ; {
		ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
		err := call(ctx)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
			return err
		}
		if time.Since(begin) > long {
			c.Fatalf("%s: no answer within %s: %v", what, long, err)
		}
		if !pause(c.Context(), 200*time.Millisecond) {
			return err
		}
	}
}

// make makes the claim, and a pod that mounts it where the scheduler is to choose.
func (c *campaign) make(cl *claim, node string) {
	claims := c.Client.CoreV1().PersistentVolumeClaims(c.Namespace)
	want := harness.Claim{Name: cl.name, Class: cl.class, Size: fmt.Sprint(cl.size), Node: node}.Object()
	want.GenerateName = ""
	err := c.insist("create claim", func(ctx context.Context) error {
		made, err := claims.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // by an earlier try
			made, err = claims.Get(ctx, cl.name, metav1.GetOptions{})
		}
		if err == nil {
			cl.uid = made.UID
		}
		return err
	})
	if err != nil {
		c.Fatalf("create claim %s: %v", cl.name, err)
	}
	if cl.annotated {
		return
	}
	var hostnames []string
	for _, n := range c.nodes {
		hostnames = append(hostnames, n.Hostname)
	}
	pod := harness.NewPod(cl.name, hostnames...)
	pod.Name, pod.GenerateName = cl.name, ""
	err = c.insist("create pod", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.Fatalf("create pod %s: %v", cl.name, err)
	}
}

// remove deletes the pod and the claim.
func (c *campaign) remove(cl *claim) {
	now := *metav1.NewDeleteOptions(0)
	err := c.insist("delete pod", func(ctx context.Context) error {
		return c.Client.CoreV1().Pods(c.Namespace).Delete(ctx, cl.name, now)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		c.Fatalf("delete pod %s: %v", cl.name, err)
	}
	tries := 0
	err = c.insist("delete claim", func(ctx context.Context) error {
		tries++
		return c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Delete(ctx, cl.name, metav1.DeleteOptions{})
	})
	switch {
	case apierrors.IsNotFound(err) && tries == 1:
		c.find(Lost, "the claim %s was gone before it was deleted", cl.name)
	case err != nil && !apierrors.IsNotFound(err):
		c.Fatalf("delete claim %s: %v", cl.name, err)
	}
	cl.deleted = true
}

// see looks whether the claim is bound, and where its data then lies.
func (c *campaign) see(cl *claim) {
	var now *corev1.PersistentVolumeClaim
	var pv *corev1.PersistentVolume
	err := c.insist("read claim", func(ctx context.Context) (err error) {
		now, err = c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Get(ctx, cl.name, metav1.GetOptions{})
		return err
	})
	if err == nil && now.Status.Phase != corev1.ClaimPending {
		err = c.insist("read PV", func(ctx context.Context) (err error) {
			pv, err = c.Client.CoreV1().PersistentVolumes().Get(ctx, now.Spec.VolumeName, metav1.GetOptions{})
			return err
		})
	}
	switch {
	case apierrors.IsNotFound(err):
		c.find(Lost, "the claim %s is there and bound, or should be: %v", cl.name, err)
	case err != nil:
		c.Fatalf("look at claim %s: %v", cl.name, err)
	case pv != nil:
		_, cl.directory = c.place(pv)
		cl.policy = pv.Spec.PersistentVolumeReclaimPolicy
	}
}

// place is the node and the directory of a PV; "" where it is not one of ours.
func (c *campaign) place(pv *corev1.PersistentVolume) (node, directory string) {
	for _, n := range c.nodes {
		if pv.Labels[harness.LabelNode] != n.Name {
			continue
		}
		switch source := pv.Spec.PersistentVolumeSource; {
		case source.HostPath != nil:
			return n.Name, source.HostPath.Path
		case source.CSI != nil:
			for _, p := range n.pools {
				if p.name == source.CSI.VolumeAttributes[harness.StoragePool] {
					return n.Name, filepath.Join(p.path, source.CSI.VolumeHandle)
				}
			}
		}
	}
	return "", ""
}

// setPolicy changes the PV's reclaim policy. Whoever changes it to Retain must have seen it bound and not have deleted
// the claim.
func (c *campaign) setPolicy(cl *claim, policy corev1.PersistentVolumeReclaimPolicy) {
	switch err := c.patchPolicy(cl.pv(), policy); {
	case apierrors.IsNotFound(err) && cl.directory == "": // there was none
	case apierrors.IsNotFound(err):
		c.find(Lost, "the PV %s of claim %s, policy %s, is gone; its directory was %s", cl.pv(), cl.name, cl.policy, cl.directory)
	case err != nil:
		c.Fatalf("patch PV %s: %v", cl.pv(), err)
	}
	cl.policy = policy
}

// patchPolicy returns NotFound only where there was none before: an earlier try may have let it go.
func (c *campaign) patchPolicy(pv string, policy corev1.PersistentVolumeReclaimPolicy) error {
	patch := fmt.Appendf(nil, `{"spec":{"persistentVolumeReclaimPolicy":%q}}`, policy)
	tries := 0
	err := c.insist("patch PV", func(ctx context.Context) error {
		tries++
		_, err := c.Client.CoreV1().PersistentVolumes().Patch(ctx, pv, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if apierrors.IsNotFound(err) && tries > 1 {
		return nil
	}
	return err
}

// grow asks for more.
func (c *campaign) grow(cl *claim, size int64) {
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, size)
	err := c.insist("grow claim", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Patch(ctx, cl.name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		c.Fatalf("grow claim %s: %v", cl.name, err)
	}
	cl.size = size
}
