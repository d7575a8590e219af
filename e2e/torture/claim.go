package torture

import (
	"cmp"
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

// kind is a class and backend of volumes.
type kind struct {
	class string
	// annotated claims name their node. For others a pod makes the scheduler choose it.
	annotated bool
	policy    corev1.PersistentVolumeReclaimPolicy
	undeletes bool // its deleted volumes are kept for a while, and some are undeleted
	copied    bool // its volumes are copied
}

// makeKinds creates the classes that the manifests do not have.
func (c *campaign) makeKinds() []kind {
	retain, grow := corev1.PersistentVolumeReclaimRetain, true
	edit := func(class *storagev1.StorageClass) { class.ReclaimPolicy, class.AllowVolumeExpansion = &retain, &grow }
	const freed = corev1.PersistentVolumeReclaimDelete
	kinds := []kind{
		{class: harness.ClassImmediate, annotated: true, policy: freed},
		{class: harness.ClassDelayed, annotated: true, policy: freed},
		{class: harness.ClassDelayed, policy: freed},
		{class: harness.ClassCSI, policy: freed},
		{class: harness.ClassCSI, policy: freed},
		{class: c.Class("kept", edit), annotated: true, policy: retain},
		{class: c.CSIClass("kept-csi", edit), policy: retain},
	}
	if !c.Migrate {
		undeletes := func(class *storagev1.StorageClass) {
			class.AllowVolumeExpansion = &grow
			if class.Parameters == nil {
				class.Parameters = map[string]string{}
			}
			class.Parameters["trashRetention"] = retention
		}
		kinds = append(kinds, kind{class: c.Class("undeletes", undeletes), annotated: true, policy: freed, undeletes: true},
			kind{class: c.CSIClass("undeletes-csi", undeletes), policy: freed, undeletes: true},
			kind{class: c.CSIClass("copied", copies), policy: freed, copied: true})
	}
	return kinds
}

// claim is a claim with what its tenant knows for certain. No other client changes it while the
// tenants work.
type claim struct {
	kind
	name string
	uid  types.UID
	size int64 // requested
	// deleted is set if the API server accepted the deletion.
	deleted bool
	// policy is that of its PV, if there is one.
	policy corev1.PersistentVolumeReclaimPolicy
	// directory has its data; "" until the claim was seen bound.
	directory string
	// files are complete files in it.
	files []string
	// volume is the name of its PV if that was made for an earlier claim, and was undeleted.
	volume string
	// from is the claim whose volume it is a copy of; nil is none.
	from *claim
	// asked is set once its volume was to be undeleted.
	asked bool
}

func (cl *claim) pv() string { return cmp.Or(cl.volume, "pvc-"+string(cl.uid)) }

// kept reports whether its data must exist after any fault.
func (cl *claim) kept() bool {
	return cl.directory != "" && (!cl.deleted || cl.policy == corev1.PersistentVolumeReclaimRetain)
}

// insist repeats a call until the API server returns success or an error that does not go away.
// After repeated calls the result can be that of an earlier one.
func (c *campaign) insist(what string, call func(context.Context) error) error {
	const long = 3 * time.Minute // the API server is down for seconds only
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

// make creates the claim, and a pod that mounts it if the scheduler is to choose the node.
func (c *campaign) make(cl *claim, node string) {
	claims := c.Client.CoreV1().PersistentVolumeClaims(c.Namespace)
	want := harness.Claim{Name: cl.name, Class: cl.class, Size: fmt.Sprint(cl.size), Node: node}.Object()
	want.GenerateName = ""
	if cl.from != nil {
		want.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: cl.from.name}
	}
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

// see reads whether the claim is bound, and where its data is.
func (c *campaign) see(cl *claim) {
	var now *corev1.PersistentVolumeClaim
	var pv *corev1.PersistentVolume
	err := c.insist("read claim", func(ctx context.Context) (err error) {
		now, err = c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Get(ctx, cl.name, metav1.GetOptions{})
		return err
	})
	bound := err == nil && now.Status.Phase != corev1.ClaimPending
	if bound {
		err = c.insist("read PV", func(ctx context.Context) (err error) {
			pv, err = c.Client.CoreV1().PersistentVolumes().Get(ctx, now.Spec.VolumeName, metav1.GetOptions{})
			return err
		})
	}
	switch {
	case apierrors.IsNotFound(err) && bound && c.Migrate: // its PV is being replaced
	case apierrors.IsNotFound(err):
		c.find(Lost, "the claim %s is there and bound, or should be: %v", cl.name, err)
	case err != nil:
		c.Fatalf("read claim %s: %v", cl.name, err)
	case pv != nil:
		_, cl.directory = c.place(pv)
		cl.policy = policyOf(pv)
	}
}

// place returns the node and the directory of a PV, or "" if no node of the campaign has it.
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

// setPolicy changes the PV's reclaim policy. Before a change to Retain the caller has seen the
// claim bound and has not deleted it.
func (c *campaign) setPolicy(cl *claim, policy corev1.PersistentVolumeReclaimPolicy) {
	if c.Migrate {
		c.setPolicyBetweenMoves(cl, policy)
		return
	}
	switch err := c.patchPolicy(cl.pv(), policy); {
	case apierrors.IsNotFound(err) && cl.directory == "": // there was no PV
	case apierrors.IsNotFound(err):
		c.find(Lost, "the PV %s of claim %s, policy %s, is gone; its directory was %s", cl.pv(), cl.name, cl.policy,
			cl.directory)
	case err != nil:
		c.Fatalf("patch PV %s: %v", cl.pv(), err)
	}
	cl.policy = policy
}

// patchPolicy returns NotFound only if there was no PV before: an earlier attempt may have had it
// deleted.
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

// grow raises the claim's request.
func (c *campaign) grow(cl *claim, size int64) {
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, size)
	err := c.insist("grow claim", func(ctx context.Context) error {
		_, err := c.Client.CoreV1().PersistentVolumeClaims(c.Namespace).Patch(ctx, cl.name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		return err
	})
	switch {
	case apierrors.IsInvalid(err) && c.Migrate: // only a bound claim may grow, and it is Lost until its new PV is there
	case err != nil:
		c.Fatalf("grow claim %s: %v", cl.name, err)
	default:
		cl.size = size
	}
}
