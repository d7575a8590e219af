package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
)

// eventsAbout are the kinds of objects whose events are read in all namespaces.
var eventsAbout = []string{"PersistentVolumeClaim", "PersistentVolume", "Node"}

// objects adds a file for each kind of object.
func (b *bundle) objects(ctx context.Context, r cluster.Reader, f *doctor.Facts) {
	var pods cluster.List[corev1.Pod]
	about := make([]cluster.List[corev1.Event], len(eventsAbout))
	asks := []func(){func() { pods = r.AgentPods(ctx) }}
	for i, kind := range eventsAbout {
		asks = append(asks, func() { about[i] = r.EventsAbout(ctx, kind) })
	}
	cluster.Together(asks...)
	pods.Items = append(pods.Items, f.Operators.Items...)
	pods.Unknown = cmp.Or(pods.Unknown, f.Operators.Unknown)

	list(b, "nodes", "v1", "Node", f.Nodes)
	list(b, "csinodes", "storage.k8s.io/v1", "CSINode", f.CSINodes)
	list(b, "csidrivers", "storage.k8s.io/v1", "CSIDriver", only(f.Drivers,
		func(d *storagev1.CSIDriver) bool { return f.Ours(d.Name) }))
	list(b, "storageclasses", "storage.k8s.io/v1", "StorageClass", classes(f))
	list(b, "persistentvolumes", "v1", "PersistentVolume", only(f.PVs,
		func(pv *corev1.PersistentVolume) bool { return volumeIsOurs(f, pv) }))
	list(b, "persistentvolumeclaims", "v1", "PersistentVolumeClaim", only(f.Claims,
		func(c *corev1.PersistentVolumeClaim) bool { return claimIsOurs(f, c) }))
	list(b, "csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity", only(f.Capacities,
		func(c *storagev1.CSIStorageCapacity) bool {
			return classIsOurs(f, c.StorageClassName)
		}))
	list(b, "daemonsets", "apps/v1", "DaemonSet", f.DaemonSets)
	list(b, "pods", "v1", "Pod", pods)
	list(b, "leases", "coordination.k8s.io/v1", "Lease", f.Leases)
	list(b, "hostpathprovisioners", hpp.GroupVersion().String(), "HostPathProvisioner", f.Resources)
	ours := func(e *corev1.Event) bool { return eventIsOurs(f, e, pods.Items) }
	list(b, "events/agents", "v1", "Event", only(f.Events, ours))
	for i, kind := range eventsAbout {
		list(b, "events/"+strings.ToLower(kind)+"s", "v1", "Event", only(about[i], ours))
	}
}

// nodeReasons are reasons of events of kubelets and the node controller that matter to volumes.
var nodeReasons = []string{"NodeReady", "NodeNotReady", "NodeHasDiskPressure", "NodeHasNoDiskPressure", "Rebooted",
	"EvictionThresholdMet", "FreeDiskSpaceFailed", "SystemOOM", "RemovingNode", "Starting"}

// eventIsOurs reports whether an event is about an object that the report has, or of a reason that this
// project records. Events about an object that does not exist any more have the names of others' claims.
func eventIsOurs(f *doctor.Facts, e *corev1.Event, pods []corev1.Pod) bool {
	about := e.InvolvedObject
	own := slices.ContainsFunc(events.Reasons(), func(r events.Reason) bool { return r.Name == e.Reason })
	switch about.Kind {
	case "PersistentVolumeClaim":
		c := f.Claims.Find(func(c *corev1.PersistentVolumeClaim) bool {
			return c.Namespace == about.Namespace && c.Name == about.Name || c.Namespace == e.Namespace && c.Name == about.Name
		})
		return c != nil && claimIsOurs(f, c)
	case "PersistentVolume":
		pv := f.PVs.Find(func(pv *corev1.PersistentVolume) bool { return pv.Name == about.Name })
		return pv != nil && volumeIsOurs(f, pv)
	case "Node":
		return own || slices.Contains(nodeReasons, e.Reason)
	case "Pod":
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Namespace == e.Namespace &&
				p.Name == about.Name
		})
	}
	return own || about.Kind == "DaemonSet" && f.DaemonSets.Find(func(d *appsv1.DaemonSet) bool {
		return d.Namespace == e.Namespace && d.Name == about.Name
	}) != nil
}

// list adds the objects of a kind as one file of YAML.
func list[T any](b *bundle, name, apiVersion, kind string, objects cluster.List[T]) {
	name = "objects/" + name + ".yaml"
	if !objects.Known() {
		b.missing(name, objects.Unknown)
		if len(objects.Items) == 0 {
			return
		}
	}
	var text bytes.Buffer
	for i := range objects.Items {
		data, dropped, err := redacted(&objects.Items[i], apiVersion, kind)
		b.dropped += dropped
		if err != nil {
			b.missing(name, fmt.Sprintf("object %d: %v", i, err))
			continue
		}
		text.WriteString("---\n")
		text.Write(data)
	}
	b.add(name, events.Count(len(objects.Items), "object"), text.Bytes())
}

// only returns the objects that are accepted.
func only[T any](all cluster.List[T], accept func(*T) bool) (some cluster.List[T]) {
	some.Unknown = all.Unknown
	for i := range all.Items {
		if accept(&all.Items[i]) {
			some.Items = append(some.Items, all.Items[i])
		}
	}
	return some
}

// noProvisioner is that of classes whose PVs are made beforehand, as those of raw disks.
const noProvisioner = "kubernetes.io/no-provisioner"

// classes returns the classes, without the parameters of other storage's.
func classes(f *doctor.Facts) (all cluster.List[storagev1.StorageClass]) {
	all.Unknown = f.Classes.Unknown
	for _, c := range f.Classes.Items {
		if !f.Ours(c.Provisioner) {
			if c.MountOptions = nil; c.Parameters != nil {
				c.Parameters = map[string]string{cut: cut}
			}
		}
		all.Items = append(all.Items, c)
	}
	return all
}

// classIsOurs reports whether the class is of this project, has no provisioner, or does not exist.
func classIsOurs(f *doctor.Facts, name string) bool {
	c := f.Classes.Find(func(c *storagev1.StorageClass) bool { return c.Name == name })
	return c == nil || f.Ours(c.Provisioner) || c.Provisioner == noProvisioner
}

func volumeIsOurs(f *doctor.Facts, pv *corev1.PersistentVolume) bool {
	switch by := pv.Annotations[contract.AnnProvisionedBy]; {
	case pv.Spec.CSI != nil:
		return f.Ours(pv.Spec.CSI.Driver)
	case by != "":
		return f.Ours(by) || contract.OfOther(pv) // which may be migrated
	}
	return pv.Spec.HostPath != nil || pv.Spec.Local != nil
}

// claimIsOurs reports whether the claim is, or may become, one of this project's volumes: its class
// is not known to be of other storage.
func claimIsOurs(f *doctor.Facts, c *corev1.PersistentVolumeClaim) bool {
	if name := c.Spec.VolumeName; name != "" {
		if pv := f.PVs.Find(func(pv *corev1.PersistentVolume) bool { return pv.Name == name }); pv != nil {
			return volumeIsOurs(f, pv)
		}
	}
	return f.Classes.Known() && classIsOurs(f, contract.Of(c))
}

// namespaced returns namespace/name of an object.
func namespaced(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
