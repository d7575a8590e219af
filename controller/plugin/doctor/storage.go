package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
)

// Ours reports whether the provisioner is one of this project, or of another whose claims the agents
// serve.
func (f *Facts) Ours(provisioner string) bool {
	return provisioner == contract.HostPathProvisioner || provisioner == contract.CSIProvisioner || f.serves(provisioner)
}

// classes finds classes whose claims cannot be bound.
func classes(f *Facts) []finding {
	all := unread(f.Classes.Unknown, f.Agents.Unknown)
	for i := range f.Classes.Items {
		c := &f.Classes.Items[i]
		if f.Ours(c.Provisioner) {
			all = append(all, f.class(c)...)
		}
	}
	return all
}

const again = advice.ReplaceClass

func (f *Facts) class(c *storagev1.StorageClass) []finding {
	bad := func(v Verdict, fix, format string, args ...any) []finding {
		return []finding{{v, "class " + c.Name, fmt.Sprintf(format, args...), fix}}
	}
	dialect := contract.DialectOf(c.Provisioner) != nil
	if _, err := contract.ParametersOf(c); err != nil {
		return bad(Critical, "", "%v", err)
	}
	switch {
	case !dialect && !contract.Delayed(c):
		return bad(Critical, again, "it binds at once, before a node is chosen: classes of the CSI driver need "+
			"volumeBindingMode: WaitForFirstConsumer")
	case dialect && len(c.MountOptions) > 0:
		return bad(Critical, again, "it has mountOptions, and the kubelet starts no pod with a hostPath volume that has some")
	case !dialect && len(notBind(c.MountOptions)) > 0:
		return bad(Critical, again, "its mount options %q are none of a bind mount, so its claims are refused",
			notBind(c.MountOptions))
	case len(f.Agents.Items) == 0: // the check of agents reports that
		return nil
	case !f.serves(c.Provisioner):
		return bad(Critical, "set PROVISION or COMPAT of the agents so that they serve it, or create a class of another "+
			"provisioner",
			"no agent serves its provisioner %s", c.Provisioner)
	case dialect:
		return nil
	}
	return f.poolOf(c, bad)
}

// bindOptions are the mount options that a bind mount can have.
var bindOptions = []string{"defaults", "bind", "ro", "rw", "nosuid", "suid", "nodev", "dev", "noexec", "exec",
	"nosymfollow", "symfollow",
	"nodiratime", "diratime", "noatime", "relatime", "strictatime"}

// notBind returns the mount options that a bind mount cannot have.
func notBind(options []string) (bad []string) {
	for _, option := range options {
		for name := range strings.SplitSeq(option, ",") {
			if !slices.Contains(bindOptions, name) {
				bad = append(bad, name)
			}
		}
	}
	return bad
}

// poolOf checks that a node has the pool of a CSI class: the agents name their pools, or else their
// driver publishes capacity for the class.
func (f *Facts) poolOf(c *storagev1.StorageClass, bad func(Verdict, string, string, ...any) []finding) []finding {
	pool, fix := contract.PoolName(c.Parameters), "name a pool that exists; "+again
	if names, known := f.poolNames(c.Provisioner); known {
		if !slices.Contains(names, pool) {
			return bad(Critical, fix, "no node has its pool %s; they have %s", pool, events.Names(names, named))
		}
		return nil
	}
	published := func(class string) bool {
		return f.Capacities.Find(func(c *storagev1.CSIStorageCapacity) bool {
			return class == "" || c.StorageClassName == class
		}) != nil
	}
	switch {
	case !f.Capacities.Known():
		return []finding{{Unknown, "class " + c.Name, f.Capacities.Unknown, ""}}
	case published(c.Name):
		return nil
	case published(""):
		return bad(Critical, fix, "no node publishes capacity for it: no node has its pool %s", pool)
	}
	// Agents may be told to publish none.
	return bad(Unknown, "", "no capacity is published, so whether a node has its pool %s is not known", pool)
}

// poolNames returns the names of the pools that the agents of a driver reported; known is false
// unless all did. Older agents report pools without names.
func (f *Facts) poolNames(driver string) (names []string, known bool) {
	for _, p := range f.Pools {
		if p.Agent.Driver != driver && !p.Agent.Serves(driver) {
			continue
		}
		if p.Problem != "" {
			return nil, false
		}
		known = true
		for _, r := range p.Reports {
			if r.Pool.Name == "" {
				return nil, false
			}
			if !slices.Contains(names, r.Pool.Name) {
				names = append(names, r.Pool.Name)
			}
		}
	}
	slices.Sort(names)
	return names, known
}

// defaultClass finds several default classes: the API server takes the newest for a claim.
func defaultClass(f *Facts) []finding {
	names := contract.DefaultClasses(f.Classes.Items)
	if len(names) < 2 {
		return unread(f.Classes.Unknown)
	}
	return []finding{{Warning, "", "several classes are the default: " + strings.Join(names, ", ") +
		"; claims get the newest",
		"kubectl annotate storageclass NAME storageclass.kubernetes.io/is-default-class-"}}
}

const runThere = "check the nodeSelector and tolerations of the agents' DaemonSet, and PROVISION"

// volumes finds PVs that no agent looks after.
func volumes(f *Facts) []finding {
	all := unread(f.PVs.Unknown, f.Nodes.Unknown, f.Agents.Unknown)
	nodeOf := cluster.NodesOf(f.Nodes)
	for i := range f.PVs.Items {
		pv := &f.PVs.Items[i]
		provisioner, disk := provisionerOf(pv), fleet.IsDiskPV(pv)
		node := nodeOf(pv)
		if label := pv.Labels[contract.LabelDisk]; node == "" && f.node(label) != nil {
			node = label // which has another hostname now
		}
		node = cmp.Or(node, contract.Hostname(pv)) // a node that is gone has no hostname any more
		if node == "" || !disk && !f.Ours(provisioner) {
			continue
		}
		switch {
		case f.Nodes.Known() && f.node(node) == nil:
			all = append(all, finding{Critical, "PV " + pv.Name, "its node " + node +
				" does not exist: no pod with it can start",
				"bring the node back with its disk; if it is gone for good, see docs/node-gone.md"})
		case f.node(node) != nil && cluster.Renamed(pv, f.node(node)) != "":
			all = append(all, finding{Critical, "PV " + pv.Name, "it " + cluster.Renamed(pv, f.node(node)),
				cluster.SetBack})
		case disk || !f.Agents.Known() || f.servedOn(node, provisioner):
		case pv.Spec.CSI == nil: // the kubelet mounts it by itself
			all = append(all, finding{Warning, "PV " + pv.Name, "no agent on its node " + node +
				" serves it: it neither grows nor is deleted", runThere})
		default:
			all = append(all, finding{Critical, "PV " + pv.Name, "no agent on its node " + node +
				" serves it: it is neither mounted nor deleted", runThere})
		}
	}
	return all
}

// provisionerOf returns the name of the provisioner that made a PV, "" if none did.
func provisionerOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return pv.Annotations[contract.AnnProvisionedBy]
}

// lost finds a claim whose PV is gone, if its class is ours or an agent reports its volume.
func (f *Facts) lost(claim *corev1.PersistentVolumeClaim) []finding {
	if claim.Status.Phase != corev1.ClaimLost {
		return nil
	}
	why := "its PV " + claim.Spec.VolumeName + " does not exist"
	places := advice.Loss{Claim: claim, Pools: f.Pools}.Places()
	for _, p := range places {
		why += "; " + p.What()
	}
	class := f.Classes.Find(func(c *storagev1.StorageClass) bool { return c.Name == contract.Of(claim) })
	if len(places) == 0 && (class == nil || !f.Ours(class.Provisioner)) {
		return nil
	}
	return []finding{{Critical, "claim " + claim.Namespace + "/" + claim.Name, why,
		fmt.Sprintf("kubectl hpp explain %s -n %s", claim.Name, claim.Namespace)}}
}

// late is how long a claim may have its node and no volume.
const late = 5 * time.Minute

// claims finds claims whose node does not exist, and those that wait although they have a node.
func claims(f *Facts) []finding {
	all := unread(f.Claims.Unknown, f.Classes.Unknown, f.Nodes.Unknown, f.Agents.Unknown)
	for i := range f.Claims.Items {
		claim := &f.Claims.Items[i]
		all = append(all, f.lost(claim)...)
		class := f.Classes.Find(func(c *storagev1.StorageClass) bool { return c.Name == contract.Of(claim) })
		if claim.Spec.VolumeName != "" || class == nil || !f.Ours(class.Provisioner) || contract.Populated(claim) {
			continue
		}
		node, by := contract.NodeOf(claim, class)
		object := "claim " + claim.Namespace + "/" + claim.Name
		switch fix := fmt.Sprintf("kubectl -n %s annotate pvc %s %s-", claim.Namespace, claim.Name, by); {
		case node == "" && contract.Delayed(class): // it waits for a pod
		case node != "" && f.Nodes.Known() && f.node(node) == nil && !contract.Copies(claim, class):
			all = append(all, finding{Critical, object, "its annotation " + by + " names node " + node +
				", which does not exist", fix})
		case f.Now.Sub(claim.CreationTimestamp.Time) > late:
			all = append(all, finding{Warning, object, "it waits for its volume for more than " + late.String(),
				fmt.Sprintf("kubectl hpp explain %s -n %s", claim.Name, claim.Namespace)})
		}
	}
	return all
}
