package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
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

	ours := sieveOf(f, pods.Items)
	list(b, "nodes", "v1", "Node", f.Nodes)
	list(b, "csinodes", "storage.k8s.io/v1", "CSINode", f.CSINodes)
	list(b, "csidrivers", "storage.k8s.io/v1", "CSIDriver", only(f.Drivers,
		func(d *storagev1.CSIDriver) bool { return f.Ours(d.Name) }))
	list(b, "storageclasses", "storage.k8s.io/v1", "StorageClass", ours.classes())
	list(b, "persistentvolumes", "v1", "PersistentVolume", only(f.PVs, ours.volume))
	list(b, "persistentvolumeclaims", "v1", "PersistentVolumeClaim", only(f.Claims, ours.claim))
	list(b, "csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity", only(f.Capacities,
		func(c *storagev1.CSIStorageCapacity) bool { return ours.class(c.StorageClassName) }))
	list(b, "daemonsets", "apps/v1", "DaemonSet", f.DaemonSets)
	list(b, "pods", "v1", "Pod", pods)
	list(b, "leases", "coordination.k8s.io/v1", "Lease", f.Leases)
	list(b, "hostpathprovisioners", hpp.GroupVersion().String(), "HostPathProvisioner", f.Resources)
	list(b, "events/agents", "v1", "Event", only(f.Events, ours.event))
	for i, kind := range eventsAbout {
		list(b, "events/"+strings.ToLower(kind)+"s", "v1", "Event", only(about[i], ours.event))
	}
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
