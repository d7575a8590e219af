package harness

import (
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Names that users depend on.
const (
	Provisioner    = "kubevirt.io/hostpath-provisioner"
	ClassDelayed   = "hostpath-provisioner"
	ClassImmediate = "hostpath-provisioner-immediate"

	AnnProvisionOnNode    = "kubevirt.io/provisionOnNode"
	AnnIdentity           = "hostPathProvisionerIdentity"
	AnnProvisionedBy      = "pv.kubernetes.io/provisioned-by"
	AnnPool               = "hostpath-provisioner.kubevirt.io/pool"
	AnnNodeUID            = "hostpath-provisioner.kubevirt.io/node-uid"
	AnnCluster            = "hostpath-provisioner.kubevirt.io/cluster"
	LabelNode             = "hostpath-provisioner.kubevirt.io/node"
	AnnSelectedNode       = "volume.kubernetes.io/selected-node"
	AnnStorageProvisioner = "volume.kubernetes.io/storage-provisioner"

	Driver       = "kubevirt.io.hostpath-provisioner"
	TopologyNode = "topology.hostpath.csi/node"
	// LabelTemplateNode is the label of nodes that the cluster-autoscaler simulates.
	LabelTemplateNode = "cluster-autoscaler.kubernetes.io/template-node"
	StoragePool       = "storagePool"
	// ClassCSI is the class of manifests/csi, LocalPool the pool that it names.
	ClassCSI  = "hostpath-csi"
	LocalPool = "local"
)

// Claim describes a claim. The zero value requests 10Mi of the immediate class and names no node.
type Claim struct {
	Name, Class, Size string
	// Node is the value of the annotation.
	Node string
	// Selected is the node that the scheduler would have chosen, for claims that need no pod.
	Selected   string
	Mode       corev1.PersistentVolumeAccessMode
	VolumeMode corev1.PersistentVolumeMode
	// Edit changes the claim before it is created.
	Edit func(*corev1.PersistentVolumeClaim)
}

// Object returns the claim's object. If it has no name, the API server generates one.
func (c Claim) Object() *corev1.PersistentVolumeClaim {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&c.Class, ClassImmediate)
	fill(&c.Size, "10Mi")
	fill((*string)(&c.Mode), string(corev1.ReadWriteOnce))
	fill((*string)(&c.VolumeMode), string(corev1.PersistentVolumeFilesystem))
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, GenerateName: "claim-"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &c.Class, VolumeMode: &c.VolumeMode,
			AccessModes: []corev1.PersistentVolumeAccessMode{c.Mode},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.Size)},
			},
		},
	}
	for key, value := range map[string]string{AnnProvisionOnNode: c.Node, AnnSelectedNode: c.Selected} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, key, value)
		}
	}
	if c.Edit != nil {
		c.Edit(claim)
	}
	return claim
}

// Create creates the claim.
func (s *Scene) Create(c Claim) *corev1.PersistentVolumeClaim {
	s.Helper()
	made, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Create(s.Context(), c.Object(),
		metav1.CreateOptions{})
	s.must("create claim", err)
	s.homes.Store(made.UID, made.Namespace)
	return made
}

// Read reads the claim from the API server. It ends the test if there is none.
func (s *Scene) Read(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	s.Helper()
	c, err := s.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(s.Context(), claim.Name, metav1.GetOptions{})
	s.must("read claim", err)
	return c
}

// Bound waits until the claim is bound, and returns its PV. It ends the test if the PV was not
// created for the claim, which happens with an available PV of a class that tests share.
func (s *Scene) Bound(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	s.Helper()
	s.Eventually("claim "+claim.Name+" bound", func() error { return s.IsBound(claim) })
	if got, want := s.Read(claim).Spec.VolumeName, PVName(claim); got != want {
		s.Fatalf("claim %s is bound to PV %s, want %s", claim.Name, got, want)
	}
	return s.PV(PVName(claim))
}

// IsBound returns nil if the claim is bound, and otherwise an error with its events.
func (s *Scene) IsBound(claim *corev1.PersistentVolumeClaim) error {
	if c := s.Read(claim); c.Status.Phase != corev1.ClaimBound {
		return s.NotYet(claim.UID, "it is %s", c.Status.Phase)
	}
	return nil
}

// IsPending returns nil if the claim is Pending.
func (s *Scene) IsPending(claim *corev1.PersistentVolumeClaim) error {
	if c := s.Read(claim); c.Status.Phase != corev1.ClaimPending || c.Spec.VolumeName != "" {
		return fmt.Errorf("claim %s is %s, volume %q", c.Name, c.Status.Phase, c.Spec.VolumeName)
	}
	return nil
}

// PathOf returns nil if the claim's directory is in the agent's pool, with the name without a
// prefix.
func (s *Scene) PathOf(a *Agent, claim *corev1.PersistentVolumeClaim) error {
	return Exists(filepath.Join(a.Pool, PVName(claim)))
}

// Delete deletes the claim.
func (s *Scene) Delete(claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	err := s.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(s.Context(), claim.Name,
		metav1.DeleteOptions{})
	s.must("delete claim", err)
}

// PVName returns the name of the claim's PV.
func PVName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// PV reads a PV. It ends the test if there is none.
func (s *Scene) PV(name string) *corev1.PersistentVolume {
	s.Helper()
	pv, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), name, metav1.GetOptions{})
	s.must("read PV", err)
	s.homes.Store(pv.UID, metav1.NamespaceDefault)
	return pv
}

// Gone waits until there is no PV of that name.
func (s *Scene) Gone(pv string) {
	s.Helper()
	s.Eventually("PV "+pv+" gone", func() error { return s.IsGone(pv) })
}

// IsGone returns nil if there is no PV of that name.
func (s *Scene) IsGone(name string) error {
	pv, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context(), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return s.NotYet(pv.UID, "PV %s is %s, finalizers %v", name, pv.Status.Phase, pv.Finalizers)
}

// Released waits until the PV is Released.
func (s *Scene) Released(name string) {
	s.Helper()
	s.Eventually("PV "+name+" released", func() error {
		if phase := s.PV(name).Status.Phase; phase != corev1.VolumeReleased {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
}

// PatchPV applies a merge patch to a PV.
func (s *Scene) PatchPV(name, patch string) {
	s.Helper()
	_, err := s.Client.CoreV1().PersistentVolumes().Patch(s.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	s.must("patch PV", err)
}

// ForcePVAway deletes a PV and removes its finalizers, as an impatient administrator does.
func (s *Scene) ForcePVAway(name string) {
	s.Helper()
	s.must("delete PV", s.Client.CoreV1().PersistentVolumes().Delete(s.Context(), name, metav1.DeleteOptions{}))
	s.Eventually("PV "+name+" forced away", func() error {
		_, err := s.Client.CoreV1().PersistentVolumes().Patch(s.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return s.IsGone(name)
	})
}

// ClaimGone waits until the claim is deleted.
func (s *Scene) ClaimGone(claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	s.Eventually("claim "+claim.Name+" gone", func() error {
		_, err := s.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(s.Context(), claim.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// Class creates a class for the test alone, and returns its name.
func (s *Scene) Class(suffix string, edit func(*storagev1.StorageClass)) string {
	s.Helper()
	mode := storagev1.VolumeBindingImmediate
	c := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: s.ClassName(suffix)},
		Provisioner: Provisioner, VolumeBindingMode: &mode,
	}
	if edit != nil {
		edit(c)
	}
	_, err := s.Client.StorageV1().StorageClasses().Create(s.Context(), c, metav1.CreateOptions{})
	s.must("create class", err)
	return c.Name
}

// CSIClass creates a class of the CSI driver with WaitForFirstConsumer and the pool of ClassCSI.
func (s *Scene) CSIClass(suffix string, edit func(*storagev1.StorageClass)) string {
	s.Helper()
	return s.Class(suffix, func(c *storagev1.StorageClass) {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		c.Provisioner, c.VolumeBindingMode = Driver, &mode
		c.Parameters = map[string]string{StoragePool: LocalPool}
		if edit != nil {
			edit(c)
		}
	})
}

// ClassName returns the name of the class that Class creates.
func (s *Scene) ClassName(suffix string) string { return s.Name + "-" + suffix }

// LocalPV creates a local PV of that path, on a node that does not exist.
func (s *Scene) LocalPV(suffix, path string) {
	s.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.ClassName(suffix)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"elsewhere"},
				}}}},
			}},
		},
	}
	_, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{})
	s.must("create PV", err)
}
