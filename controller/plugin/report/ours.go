package report

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
)

// noProvisioner is the provisioner of classes whose PVs are made beforehand, as those of raw disks.
const noProvisioner = "kubernetes.io/no-provisioner"

// nodeReasons are reasons of events of kubelets and the node controller that matter to volumes.
var nodeReasons = []string{"NodeReady", "NodeNotReady", "NodeHasDiskPressure", "NodeHasNoDiskPressure", "Rebooted",
	"EvictionThresholdMet", "FreeDiskSpaceFailed", "SystemOOM", "RemovingNode", "Starting"}

// sieve leaves out what is of other storage. It has the objects by name: a large cluster has many.
type sieve struct {
	facts      *doctor.Facts
	byClass    map[string]*storagev1.StorageClass
	pvs        map[string]*corev1.PersistentVolume
	claims     map[string]*corev1.PersistentVolumeClaim
	pods, sets map[string]bool
	reasons    map[string]bool // of this project
}

// sieveOf returns the sieve of what doctor read, and of the pods of agents and operator.
func sieveOf(f *doctor.Facts, pods []corev1.Pod) *sieve {
	s := &sieve{f, map[string]*storagev1.StorageClass{}, map[string]*corev1.PersistentVolume{},
		map[string]*corev1.PersistentVolumeClaim{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for i := range f.Classes.Items {
		s.byClass[f.Classes.Items[i].Name] = &f.Classes.Items[i]
	}
	for i := range f.PVs.Items {
		s.pvs[f.PVs.Items[i].Name] = &f.PVs.Items[i]
	}
	for i := range f.Claims.Items {
		s.claims[namespaced(&f.Claims.Items[i])] = &f.Claims.Items[i]
	}
	for i := range pods {
		s.pods[namespaced(&pods[i])] = true
	}
	for i := range f.DaemonSets.Items {
		s.sets[namespaced(&f.DaemonSets.Items[i])] = true
	}
	for _, r := range events.Reasons() {
		s.reasons[r.Name] = true
	}
	return s
}

// event reports whether an event is about an object that the report has, or of a reason that this
// project records. Events about an object that does not exist any more have the names of others' claims.
func (s *sieve) event(e *corev1.Event) bool {
	about := e.InvolvedObject
	own := s.reasons[e.Reason]
	switch about.Kind {
	case "PersistentVolumeClaim":
		c := s.claims[about.Namespace+"/"+about.Name]
		if c == nil {
			c = s.claims[e.Namespace+"/"+about.Name]
		}
		return c != nil && s.claim(c)
	case "PersistentVolume":
		pv := s.pvs[about.Name]
		return pv != nil && s.volume(pv)
	case "Node":
		return own || slices.Contains(nodeReasons, e.Reason)
	case "Pod":
		return s.pods[e.Namespace+"/"+about.Name]
	}
	return own || about.Kind == "DaemonSet" && s.sets[e.Namespace+"/"+about.Name]
}

// classes returns all classes, those of other storage without parameters and mount options.
func (s *sieve) classes() (all cluster.List[storagev1.StorageClass]) {
	all.Unknown = s.facts.Classes.Unknown
	for _, c := range s.facts.Classes.Items {
		if !s.facts.Ours(c.Provisioner) {
			if c.MountOptions = nil; c.Parameters != nil {
				c.Parameters = map[string]string{cut: cut}
			}
		}
		all.Items = append(all.Items, c)
	}
	return all
}

// class reports whether the class is of this project, has no provisioner, or does not exist.
func (s *sieve) class(name string) bool {
	c := s.byClass[name]
	return c == nil || s.facts.Ours(c.Provisioner) || c.Provisioner == noProvisioner
}

func (s *sieve) volume(pv *corev1.PersistentVolume) bool {
	switch by := pv.Annotations[contract.AnnProvisionedBy]; {
	case pv.Spec.CSI != nil:
		return s.facts.Ours(pv.Spec.CSI.Driver)
	case by != "":
		return s.facts.Ours(by) || contract.OfOther(pv) // which may be migrated
	}
	return pv.Spec.HostPath != nil || pv.Spec.Local != nil
}

// claim reports whether the claim is, or may become, one of this project's volumes: its class is not
// known to be of other storage.
func (s *sieve) claim(c *corev1.PersistentVolumeClaim) bool {
	if pv := s.pvs[c.Spec.VolumeName]; pv != nil {
		return s.volume(pv)
	}
	return s.facts.Classes.Known() && s.class(contract.Of(c))
}

// namespaced returns namespace/name of an object.
func namespaced(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
