package simulation

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// kubeManager is the controller-manager: its controllers of PVs and of protection, and the scheduler's
// choice of nodes. Each of its steps is late by the lag of the moment.
type kubeManager struct {
	*World
	due   map[string]time.Time // by step: when it is done
	seen  map[string]bool      // the steps of this pass
	next  time.Time            // of the steps that wait, the first
	acted bool

	claims map[string]*corev1.PersistentVolumeClaim
	pvs    []corev1.PersistentVolume
	chosen map[types.UID]int // how often a claim got a node
}

// controllerManager works until the bubble ends.
func (w *World) controllerManager() {
	m := &kubeManager{World: w, due: map[string]time.Time{}, chosen: map[types.UID]int{}}
	for {
		changed := w.judge.changed()
		m.pass()
		if m.acted {
			continue
		}
		var timer <-chan time.Time
		if !m.next.IsZero() {
			timer = time.After(time.Until(m.next))
		}
		select {
		case <-changed:
		case <-timer:
		}
	}
}

func (m *kubeManager) pass() {
	m.seen, m.next, m.acted = map[string]bool{}, time.Time{}, false
	m.claims = map[string]*corev1.PersistentVolumeClaim{}
	m.pvs = must1(m.god.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})).Items
	claims := must1(m.god.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})).Items
	for i := range claims {
		m.claims[claims[i].Namespace+"/"+claims[i].Name] = &claims[i]
	}
	for i := range m.pvs {
		m.volume(&m.pvs[i])
	}
	for i := range claims {
		m.claim(&claims[i])
	}
	for step := range m.due {
		if !m.seen[step] {
			delete(m.due, step)
		}
	}
}

// do carries out a step when it is due.
func (m *kubeManager) do(step string, act func() error) { m.doAfter(0, step, act) }

// doAfter carries out a step after a pause, in which nothing made it needless.
func (m *kubeManager) doAfter(pause time.Duration, step string, act func() error) {
	m.seen[step] = true
	at, ok := m.due[step]
	if !ok {
		at = time.Now().Add(pause + m.faults.managerLag())
		m.due[step] = at
	}
	if time.Now().Before(at) {
		if m.next.IsZero() || at.Before(m.next) {
			m.next = at
		}
		return
	}
	if err := act(); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		panic(err)
	}
	delete(m.due, step)
	m.acted = true
}

// volume takes the next step of a PV.
func (m *kubeManager) volume(pv *corev1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	claim := m.claimOf(pv)
	switch {
	case pv.DeletionTimestamp != nil && (claim == nil || claim.Spec.VolumeName != pv.Name) && slices.Contains(pv.Finalizers, pvProtection):
		m.do("unprotect "+pv.Name, func() error {
			pv.Finalizers = without(pv.Finalizers, pvProtection)
			_, err := m.god.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
			return err
		})
	case (ref == nil || ref.UID == "") && pv.Status.Phase != corev1.VolumeAvailable: // also while it is reserved for a claim
		m.do("available "+pv.Name, func() error { return m.phase(pv, corev1.VolumeAvailable) })
	case ref != nil && claim == nil && ref.UID != "" && pv.Status.Phase != corev1.VolumeReleased:
		m.do("release "+pv.Name, func() error { return m.phase(pv, corev1.VolumeReleased) })
	case claim != nil && ref.UID == "" && claim.DeletionTimestamp == nil && cmp.Or(claim.Spec.VolumeName, pv.Name) == pv.Name:
		m.do("claim "+pv.Name, func() error {
			ref.UID = claim.UID
			_, err := m.god.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
			return err
		})
	case claim != nil && claim.Spec.VolumeName == "" && ref.UID == claim.UID:
		m.do("bind "+pv.Name, func() error {
			claim.Spec.VolumeName = pv.Name
			_, err := m.god.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
			return err
		})
	case claim != nil && claim.Spec.VolumeName == pv.Name && ref.UID == claim.UID &&
		(pv.Status.Phase != corev1.VolumeBound || claim.Status.Phase != corev1.ClaimBound):
		m.do("bound "+pv.Name, func() error { return m.bound(pv, claim) })
	}
}

const (
	pvProtection    = "kubernetes.io/pv-protection"
	claimProtection = "kubernetes.io/pvc-protection"
)

func without(all []string, one string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == one })
}

// claimOf is the claim that a PV names, nil if it does not exist or is another one of that name.
func (m *kubeManager) claimOf(pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	if c := m.claims[ref.Namespace+"/"+ref.Name]; c != nil && (ref.UID == "" || c.UID == ref.UID) {
		return c
	}
	return nil
}

func (m *kubeManager) phase(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) error {
	now := metav1.Now()
	pv.Status.Phase, pv.Status.LastPhaseTransitionTime = phase, &now
	_, err := m.god.CoreV1().PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	return err
}

// bound marks both as Bound; then a pod writes into the volume.
func (m *kubeManager) bound(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	if pv.Status.Phase != corev1.VolumeBound {
		if err := m.phase(pv, corev1.VolumeBound); err != nil {
			return err
		}
	}
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = pv.Spec.Capacity
	if _, err := m.god.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return err
	}
	m.judge.podWrites(pv, claim)
	return nil
}

// claim takes the next step of a claim.
func (m *kubeManager) claim(c *corev1.PersistentVolumeClaim) {
	key := c.Namespace + "/" + c.Name + " " + string(c.UID)
	switch {
	case c.DeletionTimestamp != nil && m.uses(c):
	case c.DeletionTimestamp != nil && slices.Contains(c.Finalizers, claimProtection):
		m.do("unprotect "+key, func() error {
			c.Finalizers = without(c.Finalizers, claimProtection)
			_, err := m.god.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
			return err
		})
	case c.Spec.VolumeName != "" && c.Status.Phase != corev1.ClaimLost && !m.has(c.Spec.VolumeName) && c.Status.Phase == corev1.ClaimBound:
		m.do("lost "+key, func() error {
			c.Status.Phase = corev1.ClaimLost
			_, err := m.god.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
			return err
		})
	case c.Spec.VolumeName == "" && c.DeletionTimestamp == nil && c.Annotations[contract.AnnSelectedNode] == "" && m.exists(c.Labels[wantsNode]):
		pause := time.Duration(0)
		if n := m.chosen[c.UID]; n > 0 { // an agent gave it back, and the scheduler looks whether there is space
			pause = min(10*time.Second<<min(n-1, 10), 5*time.Minute)
		}
		m.doAfter(pause, "schedule "+key, func() error { return m.schedule(c) })
	}
}

// wantsNode is the label of a claim whose pod may run on that node alone.
const wantsNode = "simulated/node"

// exists reports whether there is a Node of that name.
func (m *kubeManager) exists(name string) bool {
	n := m.node(name)
	return n != nil && n.absent.IsZero()
}

// schedule chooses the node of a claim, as the scheduler does once a pod uses the claim.
func (m *kubeManager) schedule(c *corev1.PersistentVolumeClaim) error {
	m.chosen[c.UID]++
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[contract.AnnSelectedNode] = c.Labels[wantsNode]
	if sc, err := m.god.StorageV1().StorageClasses().Get(ctx, ptr.Deref(c.Spec.StorageClassName, ""), metav1.GetOptions{}); err == nil {
		c.Annotations[contract.AnnStorageProvisioner] = sc.Provisioner
	}
	_, err := m.god.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

// uses reports whether a pod of an installation uses the claim. Tenants' claims have no pods here.
func (m *kubeManager) uses(c *corev1.PersistentVolumeClaim) bool {
	if c.Namespace != namespace {
		return false
	}
	_, used := contract.ClaimUsers(must1(m.god.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})).Items)[c.Namespace+"/"+c.Name]
	return used
}

func (m *kubeManager) has(pv string) bool {
	return slices.ContainsFunc(m.pvs, func(v corev1.PersistentVolume) bool { return v.Name == pv })
}
