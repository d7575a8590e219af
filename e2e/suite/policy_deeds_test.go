package suite

import (
	"context"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	othersNode = `not of the agent's own node`
	notOurs    = `neither of the CSI driver`
	wrongLabel = `the label hostpath-provisioner.kubevirt.io/node`
	noPool     = `not of a directory of volumes`
)

// spoilt is a PV, changed.
func spoilt(pv *corev1.PersistentVolume, spoil func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	spoil(pv)
	return pv
}

// term spoils the one term of a PV's affinity.
func term(spoil func(*corev1.NodeSelectorTerm)) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { spoil(&pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0]) }
}

// expression spoils the one expression of it.
func expression(spoil func(*corev1.NodeSelectorRequirement)) func(*corev1.PersistentVolume) {
	return term(func(t *corev1.NodeSelectorTerm) { spoil(&t.MatchExpressions[0]) })
}

// path spoils the path of a hostPath PV, of which to gets the path and the PV's name.
func path(to func(at, name string) string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.HostPath.Path = to(pv.Spec.HostPath.Path, pv.Name) }
}

// pvDeeds are tried by the agent of the first node.
func pvDeeds(s *harness.Scene, a, b harness.Node, kubeconfig string) {
	try(s, kubeconfig, newPVs(s, a, b))
	retain := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	hostPath, csi := save(s, spoilt(hostPathPVOf(s, a), retain)), save(s, spoilt(csiPVOf(s, a), retain))
	others := []*corev1.PersistentVolume{
		save(s, spoilt(hostPathPVOf(s, b), retain)), save(s, spoilt(csiPVOf(s, b), retain)),
		save(s, spoilt(hostPathPVOf(s, b), func(pv *corev1.PersistentVolume) { retain(pv); pv.Labels = nil })),
	}
	older := save(s, spoilt(hostPathPVOf(s, a), func(pv *corev1.PersistentVolume) { retain(pv); pv.Labels = nil }))
	foreign := save(s, spoilt(hostPathPVOf(s, a), func(pv *corev1.PersistentVolume) { retain(pv); pv.Annotations = nil }))
	deeds := []deed{
		{"label an older PV", "", patchPV(older, `{"metadata":{"labels":{%q:%q}}}`, harness.LabelNode, a.Name)},
		{"label it another's", wrongLabel, patchPV(older, `{"metadata":{"labels":{%q:%q}}}`, harness.LabelNode, b.Name)},
		{"call it another provisioner's", notOurs, patchPV(hostPath, `{"metadata":{"annotations":{%q:"x"}}}`, harness.AnnProvisionedBy)},
		{"label a foreign PV", notOurs, patchPV(foreign, `{"metadata":{"labels":{%q:%q}}}`, harness.LabelNode, a.Name)},
		{"delete a foreign PV", notOurs, deletePV(foreign)},
	}
	for _, pv := range []*corev1.PersistentVolume{hostPath, csi} {
		deeds = append(deeds,
			deed{"grow its own", "", patchPV(pv, `{"spec":{"capacity":{"storage":"20Mi"}}}`)},
			deed{"keep its own", "", patchPV(pv, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)},
			deed{"let its own go", "", patchPV(pv, `{"metadata":{"finalizers":null}}`)},
			deed{"give its own away", wrongLabel, patchPV(pv, `{"metadata":{"labels":{%q:%q}}}`, harness.LabelNode, b.Name)},
			deed{"delete its own", "", deletePV(pv)},
		)
	}
	for _, pv := range others {
		deeds = append(deeds,
			deed{"steal another's", othersNode, patchPV(pv, `{"metadata":{"labels":{%q:%q}}}`, harness.LabelNode, a.Name)},
			deed{"grow another's", othersNode, patchPV(pv, `{"spec":{"capacity":{"storage":"20Mi"}}}`)},
			deed{"let another's be deleted", othersNode, patchPV(pv, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)},
			deed{"let another's go", othersNode, patchPV(pv, `{"metadata":{"finalizers":null}}`)},
			deed{"delete another's", othersNode, deletePV(pv)},
		)
	}
	try(s, kubeconfig, deeds)
	// Whoever is no agent is not held.
	for _, d := range []deed{{"", "", deletePV(others[0])}, {"", "", createPV(csiPVOf(s, b))}} {
		if err := d.do(s.Context(), s.Client); err != nil {
			s.Errorf("an administrator: %v", err)
		}
	}
}

// newPVs are those that an agent may make, and may not.
func newPVs(s *harness.Scene, a, b harness.Node) []deed {
	in := func(values ...string) func(*corev1.PersistentVolume) {
		return expression(func(e *corev1.NodeSelectorRequirement) { e.Values = values })
	}
	secret := &corev1.SecretReference{Name: "secret", Namespace: "kube-system"}
	deeds := []deed{
		{"a hostPath PV", "", createPV(hostPathPVOf(s, a))},
		{"a CSI PV", "", createPV(csiPVOf(s, a))},
		{"without a label", "", createPV(spoilt(csiPVOf(s, a), func(pv *corev1.PersistentVolume) { pv.Labels = nil }))},
		{"another's hostPath PV", othersNode, createPV(hostPathPVOf(s, b))},
		{"another's CSI PV", othersNode, createPV(csiPVOf(s, b))},
		{"with another's label", wrongLabel, createPV(spoilt(csiPVOf(s, a), func(pv *corev1.PersistentVolume) {
			pv.Labels[harness.LabelNode] = b.Name
		}))},
		{"an NFS PV", notOurs, createPV(spoilt(hostPathPVOf(s, a), sourced(corev1.PersistentVolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/"}})))},
		{"of nobody", notOurs, createPV(spoilt(hostPathPVOf(s, a), func(pv *corev1.PersistentVolume) { pv.Annotations = nil }))},
		{"of another driver", notOurs, createPV(spoilt(csiPVOf(s, a), func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }))},
		{"in a directory of no pool", noPool, createPV(spoilt(hostPathPVOf(s, a), path(func(at, name string) string { return "/etc/" + name })))},
		{"below a volume", noPool, createPV(spoilt(hostPathPVOf(s, a), path(func(at, name string) string { return at + "/" + name })))},
		{"the pool itself", noPool, createPV(spoilt(hostPathPVOf(s, a), path(func(at, _ string) string { return filepath.Dir(at) })))},
		{"another name", noPool, createPV(spoilt(hostPathPVOf(s, a), path(func(at, _ string) string { return filepath.Dir(at) + "/other" })))},
		{"with the claim's name", "", createPV(spoilt(hostPathPVOf(s, a), path(func(at, name string) string {
			return filepath.Dir(at) + "/claim-" + name
		})))},
		{"a CSI PV by hostname", othersNode, createPV(spoilt(csiPVOf(s, a), expression(func(e *corev1.NodeSelectorRequirement) {
			e.Key = corev1.LabelHostname
		})))},
	}
	for _, pv := range []func(*harness.Scene, harness.Node) *corev1.PersistentVolume{hostPathPVOf, csiPVOf} {
		deeds = append(deeds,
			deed{"on any node", othersNode, createPV(spoilt(pv(s, a), func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nil }))},
			deed{"on two nodes", othersNode, createPV(spoilt(pv(s, a), in(a.Name, b.Name)))},
			deed{"not on its node", othersNode, createPV(spoilt(pv(s, a), expression(func(e *corev1.NodeSelectorRequirement) {
				e.Operator = corev1.NodeSelectorOpNotIn
			})))},
			deed{"or on another", othersNode, createPV(spoilt(pv(s, a), func(p *corev1.PersistentVolume) {
				r := p.Spec.NodeAffinity.Required
				r.NodeSelectorTerms = append(r.NodeSelectorTerms, pv(s, b).Spec.NodeAffinity.Required.NodeSelectorTerms...)
			}))},
			deed{"by fields too", othersNode, createPV(spoilt(pv(s, a), term(func(t *corev1.NodeSelectorTerm) {
				t.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{a.Name}}}
			})))},
		)
	}
	for _, set := range []func(*corev1.CSIPersistentVolumeSource){
		func(c *corev1.CSIPersistentVolumeSource) { c.ControllerPublishSecretRef = secret },
		func(c *corev1.CSIPersistentVolumeSource) { c.NodeStageSecretRef = secret },
		func(c *corev1.CSIPersistentVolumeSource) { c.NodePublishSecretRef = secret },
		func(c *corev1.CSIPersistentVolumeSource) { c.ControllerExpandSecretRef = secret },
		func(c *corev1.CSIPersistentVolumeSource) { c.NodeExpandSecretRef = secret },
	} {
		pv := csiPVOf(s, a)
		set(pv.Spec.CSI)
		deeds = append(deeds, deed{"with a secret", `names a secret`, createPV(pv)})
	}
	return deeds
}

// claimDeeds are tried by the agent of the first node. No agent runs and no provisioner has the
// class, so nothing but the deeds happens to the claims.
func claimDeeds(s *harness.Scene, a, b harness.Node, kubeconfig string) {
	type claim = corev1.PersistentVolumeClaim
	bound := func(c *claim) { c.Spec.VolumeName = "none" }
	mine := s.Create(harness.Claim{Class: "none", Selected: a.Name, Edit: bound})
	annotated := s.Create(harness.Claim{Class: "none", Selected: b.Name, Node: a.Name, Edit: bound})
	others := []*claim{
		s.Create(harness.Claim{Class: "none", Selected: b.Name, Edit: bound}), s.Create(harness.Claim{Class: "none", Node: b.Name, Edit: bound}),
	}
	nobodys, pending := s.Create(harness.Claim{Class: "none", Edit: bound}), s.Create(harness.Claim{Class: "none", Selected: a.Name})
	of := func(provisioner string) func(*claim) {
		return func(c *claim) {
			bound(c)
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/storage-provisioner", provisioner)
		}
	}
	ours := s.Create(harness.Claim{Class: "none", Edit: of("kubevirt.io.hostpath-provisioner")})
	strangers := s.Create(harness.Claim{Class: "none", Edit: of("example.com/other")})
	choose := func(node string) func(*claim) {
		return func(c *claim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, harness.AnnSelectedNode, node) }
	}
	giveBack := func(c *claim) { delete(c.Annotations, harness.AnnSelectedNode) }
	const cloning = "provisioner.storage.kubernetes.io/cloning-protection"
	protected := s.Create(harness.Claim{Class: "none", Selected: b.Name, Edit: func(c *claim) {
		bound(c)
		c.Finalizers = []string{cloning}
	}})
	const (
		more  = `changes nothing of a claim but`
		state = `no status but that of a bound claim`
		grown = `{"status":{"capacity":{"storage":"20Mi"}}}`
	)
	copied := func(provisioner string, edit ...func(*claim)) *claim {
		return s.Create(harness.Claim{Class: "none", Selected: b.Name, Edit: func(c *claim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/storage-provisioner", provisioner)
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "source"}
			for _, e := range edit {
				e(c)
			}
		}})
	}
	ourCopy := copied("kubevirt.io.hostpath-provisioner")
	forget := func(c *claim) { delete(c.Annotations, harness.AnnStorageProvisioner) }
	asked := func(node string, edit func(*claim)) *claim { // without a volume, unless edit gives it one
		return s.Create(harness.Claim{Class: "none", Selected: node, Edit: func(c *claim) {
			edit(c)
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, harness.AnnStorageProvisioner, "kubevirt.io.hostpath-provisioner")
		}})
	}
	none := func(*claim) {}
	deeds := []deed{
		{"wake the scheduler", "", editClaim(asked("", none), forget)},
		{"forget the provisioner, of a bound claim", more, editClaim(asked("", bound), forget)},
		{"forget the provisioner, of a claim with a node", more, editClaim(asked(a.Name, none), forget)},
		{"forget the provisioner, while giving back", more, editClaim(asked(a.Name, none), func(c *claim) { giveBack(c); forget(c) })},
		{"forget the provisioner, of another's claim", othersNode, editClaim(asked(b.Name, none), forget)},
		{"take another's copy, and label it", more, editClaim(ourCopy, func(c *claim) { choose(a.Name)(c); c.Labels = map[string]string{"x": "y"} })},
		{"take another's copy, and mark it", othersNode, editClaim(ourCopy, func(c *claim) {
			choose(a.Name)(c)
			c.Annotations["hostpath-provisioner.kubevirt.io/migrated"] = "uid"
		})},
		{"give another's copy back", othersNode, editClaim(ourCopy, giveBack)},
		{"send another's copy on", othersNode, editClaim(ourCopy, choose("node-of-no-one"))},
		{"take a copy of another provisioner", othersNode, editClaim(copied("example.com/other"), choose(a.Name))},
		{"take a hostPath copy", othersNode, editClaim(copied("kubevirt.io/hostpath-provisioner"), choose(a.Name))},
		{"take a copy that is bound", othersNode, editClaim(copied("kubevirt.io.hostpath-provisioner", bound), choose(a.Name))},
		{"take a copy, and say whose it is", othersNode, editClaim(copied("example.com/other"), func(c *claim) {
			choose(a.Name)(c)
			c.Annotations["volume.kubernetes.io/storage-provisioner"] = "kubevirt.io.hostpath-provisioner"
		})},
		{"choose for a copy", "", editClaim(ourCopy, choose(a.Name))},
		{"give back", "", editClaim(mine, giveBack)},
		{"migrate", "", editClaim(annotated, func(c *claim) { c.Annotations["hostpath-provisioner.kubevirt.io/migrated"] = "uid" })},
		{"choose", "", editClaim(ours, choose(a.Name))},
		{"choose another", more, editClaim(ours, choose(b.Name))},
		{"choose for a claim of no provisioner", more, editClaim(nobodys, choose(a.Name))},
		{"choose for a claim of another provisioner", more, editClaim(strangers, choose(a.Name))},
		{"choose, and say whose the claim is", more, editClaim(strangers, func(c *claim) {
			choose(a.Name)(c)
			of("kubevirt.io.hostpath-provisioner")(c)
		})},
		{"pass on", more, editClaim(mine, choose(b.Name))},
		{"bind", more, editClaim(pending, func(c *claim) { giveBack(c); c.Spec.VolumeName = "other" })},
		{"label", more, editClaim(mine, func(c *claim) { c.Labels = map[string]string{"x": "y"} })},
		{"annotate", more, editClaim(mine, func(c *claim) { c.Annotations["x"] = "y" })},
		{"annotate again", more, editClaim(annotated, func(c *claim) { c.Annotations[harness.AnnProvisionOnNode] = b.Name })},
		{"take an annotation", more, editClaim(annotated, func(c *claim) { delete(c.Annotations, harness.AnnProvisionOnNode) })},
		{"protect another's from deletion while it is copied", "", editClaim(others[0], func(c *claim) { c.Finalizers = append(c.Finalizers, cloning) })},
		{"let it go", "", editClaim(protected, func(c *claim) {
			c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == cloning })
		})},
		{"protect it, and label it", othersNode, editClaim(others[0], func(c *claim) {
			c.Finalizers, c.Labels = append(c.Finalizers, cloning), map[string]string{"x": "y"}
		})},
		{"let all go", othersNode, editClaim(protected, func(c *claim) { c.Finalizers = nil })},
		{"hold", more, editClaim(mine, func(c *claim) { c.Finalizers = append(c.Finalizers, "example.com/hold") })},
		{"let go", more, editClaim(mine, func(c *claim) { c.Finalizers = nil })},
		{"own", more, editClaim(mine, func(c *claim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: c.UID}}
		})},
		{"size", "", patchStatus(mine, grown)},
		{"size, annotated", "", patchStatus(annotated, grown)},
		{"size, nobody's", "", patchStatus(nobodys, grown)},
		{"size, pending", state, patchStatus(pending, grown)},
		{"phase", state, patchStatus(mine, `{"status":{"phase":"Lost"}}`)},
	}
	for _, c := range others {
		deeds = append(deeds,
			deed{"give another's back", othersNode, editClaim(c, giveBack)},
			deed{"take another's", othersNode, editClaim(c, choose(a.Name))},
			deed{"size another's", othersNode, patchStatus(c, grown)},
		)
	}
	try(s, kubeconfig, deeds)
}

// capacityDeeds are tried by the agent of the first node.
func capacityDeeds(s *harness.Scene, a, b harness.Node, kubeconfig string) {
	made := func(node harness.Node) *storagev1.CSIStorageCapacity {
		o := capacityFor(node)
		o.Name += "-there"
		o, err := s.Client.StorageV1().CSIStorageCapacities(o.Namespace).Create(s.Context(), o, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		return o
	}
	update := func(o *storagev1.CSIStorageCapacity, label string) func(context.Context, kubernetes.Interface) error {
		o = o.DeepCopy()
		o.Labels[harness.LabelNode] = label
		return func(ctx context.Context, client kubernetes.Interface) error {
			_, err := client.StorageV1().CSIStorageCapacities(o.Namespace).Update(ctx, o, metav1.UpdateOptions{DryRun: dry})
			return err
		}
	}
	remove := func(o *storagev1.CSIStorageCapacity) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, client kubernetes.Interface) error {
			return client.StorageV1().CSIStorageCapacities(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{DryRun: dry})
		}
	}
	edited := func(node harness.Node, edit func(*storagev1.CSIStorageCapacity)) *storagev1.CSIStorageCapacity {
		o := capacityFor(node)
		edit(o)
		return o
	}
	mine, others := made(a), made(b)
	template := capacityFor(a)
	template.Name, template.Labels = "template."+template.Name, map[string]string{"hostpath-provisioner.kubevirt.io/template-node": "big"}
	template.NodeTopology.MatchLabels = map[string]string{harness.LabelTemplateNode: "true"}
	templates, err := s.Client.StorageV1().CSIStorageCapacities(template.Namespace).Create(s.Context(), template, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	try(s, kubeconfig, []deed{
		{"its own", "", putCapacity(capacityFor(a))},
		{"as a sidecar", "", putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) { o.Labels = nil }))},
		{"another's", othersNode, putCapacity(capacityFor(b))},
		{"everybody's", othersNode, putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) { o.NodeTopology = &metav1.LabelSelector{} }))},
		{"nobody's", othersNode, putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) { o.NodeTopology = nil }))},
		{"by an expression too", othersNode, putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) {
			o.NodeTopology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpExists}}
		}))},
		{"of nodes that an autoscaler may add", othersNode, putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) {
			o.NodeTopology.MatchLabels = map[string]string{harness.LabelTemplateNode: "true"}
		}))},
		{"of such nodes and its own", othersNode, putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) {
			o.NodeTopology.MatchLabels[harness.LabelTemplateNode] = "true"
		}))},
		{"with another's label", wrongLabel, putCapacity(edited(a, func(o *storagev1.CSIStorageCapacity) { o.Labels[harness.LabelNode] = b.Name }))},
		{"update its own", "", update(mine, a.Name)},
		{"give its own away", wrongLabel, update(mine, b.Name)},
		{"steal another's", othersNode, update(others, a.Name)},
		{"remove the operator's", othersNode, remove(templates)},
		{"remove its own", "", remove(mine)},
		{"remove another's", othersNode, remove(others)},
	})
}
