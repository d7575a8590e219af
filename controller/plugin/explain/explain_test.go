package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

const gib = 1 << 30

// now is after everything in a scene happened.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// scene is a claim of 1 GiB for which the scheduler chose node-01, of two nodes that each have
// 10 GiB in the pool "local". Nothing keeps it.
func scene() *Facts {
	f := &Facts{Now: now, NoPools: "may not run commands in the agents' pods"}
	f.Claim = corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "c1", CreationTimestamp: ago(5 * time.Minute),
			Annotations: map[string]string{contract.AnnSelectedNode: "node-01"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	f.Class.It = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: contract.CSIProvisioner,
		VolumeBindingMode: &mode, Parameters: map[string]string{contract.StoragePool: "local"}}
	f.Classes.Items = []storagev1.StorageClass{*f.Class.It}
	f.Users.Items = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}}}
	for _, name := range []string{"node-01", "node-02"} {
		f.Nodes.Items = append(f.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, contract.TopologyNode: name}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		f.Agents.Items = append(f.Agents.Items, cluster.Agent{Node: name, Namespace: "hpp", Pod: "agent-" + name, Process: cluster.NodeAgent, Ready: true,
			Provisioners: []string{contract.CSIProvisioner}})
		f.CSINodes.Items = append(f.CSINodes.Items, storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner}}}})
		f.Capacities.Items = append(f.Capacities.Items, storagev1.CSIStorageCapacity{StorageClassName: "local", Capacity: ptr.To(resource.MustParse("10Gi")),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: name}}})
	}
	return f
}

// asked gives the scene the pools of the agents.
func (f *Facts) asked(edit func(node int, r *inspect.Report)) {
	f.NoPools = ""
	for i, a := range f.Agents.Items {
		r := inspect.Report{Pool: inspect.Pool{Name: "local", Path: "/var/hpvolumes/csi", Quotas: "project", Held: true}, Space: space.Space{Total: 20 * gib, Free: 12 * gib, Available: 10 * gib}}
		if edit != nil {
			edit(i, &r)
		}
		f.Pools = append(f.Pools, agents.Pools{Agent: a, Reports: []inspect.Report{r}})
	}
}

// unscheduled takes the node from the claim: the scheduler found none for its pod.
func (f *Facts) unscheduled(message string) {
	f.Claim.Annotations = nil
	f.Users.Items[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
}

// importSource is that of a claim which CDI fills, as for every disk of a VM that is imported.
func importSource() *corev1.TypedObjectReference {
	return &corev1.TypedObjectReference{APIGroup: ptr.To("cdi.kubevirt.io"), Kind: "VolumeImportSource", Name: "import"}
}

// tainted gives both nodes a taint, as Kubernetes does for a condition.
func (f *Facts) tainted(key string, edit func(*corev1.Node)) {
	for i := range f.Nodes.Items {
		n := &f.Nodes.Items[i]
		n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		if edit != nil {
			edit(n)
		}
	}
}

// twoPools gives the nodes a small pool for hostPath claims, and a large one of the driver.
func (f *Facts) twoPools(pvDir string) {
	f.NoPools = ""
	for _, a := range f.Agents.Items {
		a.PVDir = pvDir
		f.Pools = append(f.Pools, agents.Pools{Agent: a, Reports: []inspect.Report{
			{Pool: inspect.Pool{Name: "hostpath", Path: "/var/hpvolumes", Held: true}, Space: space.Space{Total: 20 * gib, Available: gib / 2}},
			{Pool: inspect.Pool{Name: "fast", Path: "/mnt/fast/csi", Held: true}, Space: space.Space{Total: 900 * gib, Available: 800 * gib}},
		}})
	}
}

// hostPath makes the class one of the hostPath provisioner, which the agents serve.
func (f *Facts) hostPath(delayed bool) {
	mode := storagev1.VolumeBindingImmediate
	if delayed {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	f.Class.It.Provisioner, f.Class.It.VolumeBindingMode, f.Class.It.Parameters = contract.HostPathProvisioner, &mode, nil
	for i := range f.Agents.Items {
		f.Agents.Items[i].Provisioners = []string{contract.HostPathProvisioner}
	}
}

// volume binds the claim to a PV on node-01.
func (f *Facts) volume() *corev1.PersistentVolume {
	f.Claim.Spec.VolumeName, f.Claim.Status.Phase = "pvc-c1", corev1.ClaimBound
	f.Claim.Status.Capacity = f.Claim.Spec.Resources.Requests.DeepCopy()
	f.PV.It = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-c1"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef:               &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "c1"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-c1"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-01"}}}}}}},
	}}
	return f.PV.It
}

func event(kind, reason, message string) corev1.Event {
	return corev1.Event{Type: kind, Reason: reason, Message: message, LastTimestamp: ago(time.Minute)}
}

// agentsOn is a DaemonSet of agents that serve the driver, on the nodes of a selector.
func agentsOn(selector map[string]string) (d appsv1.DaemonSet) {
	d.Namespace, d.Name = "hpp", "agents"
	d.Spec.Template.Spec = corev1.PodSpec{NodeSelector: selector, Containers: []corev1.Container{{Name: "hostpath-provisioner", Env: []corev1.EnvVar{{Name: "PROVISION", Value: "csi"}}}}}
	return d
}

// ofNode1 makes the event one about node-01.
func ofNode1(e corev1.Event) corev1.Event {
	e.InvolvedObject.Name = "node-01"
	return e
}

// text returns the findings as lines of level, what and what to do.
func text(a Answer) string {
	var b strings.Builder
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "%s: %s => %s\n", f.Level, f.What, f.Do)
	}
	return b.String()
}

// Each row changes one thing of a scene in which nothing keeps the claim, and has the words of the
// first cause, and of what to do.
func TestCauses(t *testing.T) {
	for name, row := range map[string]struct {
		spoil    func(f *Facts)
		what, do string
	}{
		"no class, none is the default": {func(f *Facts) { f.Claim.Spec.StorageClassName, f.Class.It = nil, nil }, "names no class, and no class is the default", "that the agents serve (local)"},
		"empty class":                   {func(f *Facts) { f.Claim.Spec.StorageClassName, f.Class.It = ptr.To(""), nil }, "the empty class", "create a PV without a class"},
		"missing class":                 {func(f *Facts) { f.Claim.Spec.StorageClassName, f.Class.It = ptr.To("fast"), nil }, "class fast does not exist", "(local)"},
		"missing class, none is served": {func(f *Facts) {
			f.Claim.Spec.StorageClassName, f.Class.It, f.Classes.Items = ptr.To("fast"), nil, nil
		}, "class fast does not exist", "docs/storage-classes.md"},
		"another provisioner": {func(f *Facts) { f.Class.It.Provisioner = "ebs.csi.aws.com" }, "provisioner ebs.csi.aws.com, which is none of these agents; they serve kubevirt.io.hostpath-provisioner", "another class"},
		"no provisioner":      {func(f *Facts) { f.Class.It.Provisioner = "kubernetes.io/no-provisioner" }, "class local has no provisioner", "docs/raw-disks.md"},
		"not served":          {func(f *Facts) { f.Class.It.Provisioner = contract.LocalPathProvisioner }, "no agent serves provisioner rancher.io/local-path of class local; the agents serve kubevirt.io.hostpath-provisioner", "PROVISION or COMPAT"},
		"no agents":           {func(f *Facts) { f.Agents.Items = nil }, "no agent of hostpath-provisioner runs in this cluster", "docs/install.md"},
		"wrong parameter":     {func(f *Facts) { f.Class.It.Parameters = map[string]string{"storagepool": "x"} }, `unknown parameters ["storagepool"]`, ""},
		"access mode":         {func(f *Facts) { f.Claim.Spec.AccessModes[0] = corev1.ReadWriteMany }, "access mode ReadWriteMany is not supported", "create the claim again"},
		"a copy of a claim": {func(f *Facts) {
			f.Claim.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "old"}
		}, `PersistentVolumeClaim "old" is not supported`, "create the claim again"},
		"a populator, no class": {func(f *Facts) {
			f.Claim.Spec.DataSourceRef, f.Claim.Spec.StorageClassName, f.Class.It = importSource(), ptr.To("fast"), nil
		}, "class fast does not exist", ""},
		"block":                   {func(f *Facts) { f.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, "volumeMode Block is not supported", ""},
		"no consumer":             {func(f *Facts) { f.Claim.Annotations, f.Users.Items = nil, nil }, "class local waits for the first pod that uses the claim (WaitForFirstConsumer), and no pod does", "create a pod that uses it"},
		"no consumer, hostPath":   {func(f *Facts) { f.hostPath(true); f.Claim.Annotations, f.Users.Items = nil, nil }, "and no pod does", "or annotate the claim with kubevirt.io/provisionOnNode: NODE"},
		"no node is named":        {func(f *Facts) { f.hostPath(false); f.Claim.Annotations = nil }, "no node is named for this claim", ""},
		"CSI class binds at once": {func(f *Facts) { f.Class.It.VolumeBindingMode = nil; f.Claim.Annotations = nil }, "no node will be chosen for this claim", ""},
		"named node missing": {func(f *Facts) {
			f.hostPath(true)
			f.Claim.Annotations = map[string]string{contract.AnnProvisionOnNode: "node-09"}
		}, `names node "node-09", which does not exist`, ""},
		"chosen node missing": {func(f *Facts) { f.Claim.Annotations[contract.AnnSelectedNode] = "node-09" }, "the scheduler chose node node-09, which does not exist any more",
			"kubectl -n shop annotate pvc data volume.kubernetes.io/selected-node-"},
		"unscheduled":    {func(f *Facts) { f.unscheduled("0/2 nodes are available") }, "pod db-0, which uses the claim, is not scheduled: 0/2 nodes are available", ""},
		"pod names node": {func(f *Facts) { f.unscheduled(""); f.Users.Items[0].Spec.NodeName = "node-01" }, "pod db-0 names its node node-01 itself", "nodeSelector"},
		"gate": {func(f *Facts) {
			f.Claim.Annotations = nil
			f.Users.Items[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
		}, `pod db-0 has the scheduling gate "wait"`, "remove the gate"},
		"node not ready": {func(f *Facts) { f.Nodes.Items[0].Status.Conditions[0].Status = corev1.ConditionUnknown }, "node node-01 cannot hold the volume: it is not ready", "kubectl describe node node-01"},
		"cordoned":       {func(f *Facts) { f.unscheduled("0/2"); f.tainted(corev1.TaintNodeUnschedulable, nil) }, "none of the 2 nodes can hold the volume: it is cordoned", "kubectl uncordon node-01"},
		"cordoned, not tainted yet": {func(f *Facts) {
			f.unscheduled("0/2")
			f.Nodes.Items[0].Spec.Unschedulable, f.Nodes.Items[1].Spec.Unschedulable = true, true
		}, "none of the 2 nodes can hold the volume: it is cordoned", "kubectl uncordon node-01"},
		"unreachable": {func(f *Facts) {
			f.unscheduled("0/2")
			f.tainted(corev1.TaintNodeUnreachable, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		}, "none of the 2 nodes can hold the volume: it is not ready", "kubectl describe node node-01"},
		"a full disk of kubelets": {func(f *Facts) { f.unscheduled("0/2"); f.tainted(corev1.TaintNodeDiskPressure, nil) }, "the disk of its kubelet is nearly full (DiskPressure)", "free space there"},
		"raw disks, no pod": {func(f *Facts) {
			f.Claim.Annotations, f.Users.Items = nil, nil
			f.Class.It.Provisioner, f.Claim.Spec.VolumeMode = "kubernetes.io/no-provisioner", ptr.To(corev1.PersistentVolumeBlock)
		}, "class local waits for the first pod that uses the claim", "create a pod"},
		"raw disks, agents unknown": {func(f *Facts) {
			f.Class.It.Provisioner, f.Claim.Spec.VolumeMode = "kubernetes.io/no-provisioner", ptr.To(corev1.PersistentVolumeBlock)
			f.Agents = cluster.List[cluster.Agent]{Unknown: "may not list pods"}
		}, "class local has no provisioner: its PVs are made beforehand, and none was bound", "docs/raw-disks.md"},
		"a pod that ends is none": {func(f *Facts) { f.Claim.Annotations = nil; f.Users.Items[0].DeletionTimestamp = ptr.To(ago(0)) }, "waits for the first pod", ""},
		"one pod ends, another waits": {func(f *Facts) {
			f.unscheduled("0/2 nodes are available")
			ending := *f.Users.Items[0].DeepCopy()
			ending.Name, ending.DeletionTimestamp = "a-db-0", ptr.To(ago(0))
			ending.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-09"}
			f.Users.Items = append([]corev1.Pod{ending}, f.Users.Items...)
		}, "pod db-0, which uses the claim, is not scheduled: 0/2 nodes are available", ""},
		"hostPath, space in a pool of the driver": {func(f *Facts) { f.hostPath(true); f.twoPools("") }, "1Gi are requested, and 512Mi are available in pool hostpath", ""},
		"hostPath, PV_DIR is a named pool":        {func(f *Facts) { f.hostPath(true); f.twoPools("/mnt/fast/csi"); f.request("900Gi") }, "900Gi are requested, and 800Gi are available in pool fast", ""},
		"hostPath, the pool in PV_DIR is away": {func(f *Facts) {
			f.hostPath(true)
			f.twoPools("/elsewhere")
			f.Pools[0].Reports = f.Pools[0].Reports[1:]
		}, "it has no pool in PV_DIR; it has fast", ""},
		"local-path knows no annotation": {func(f *Facts) {
			f.hostPath(true)
			f.Class.It.Provisioner, f.Agents.Items[0].Provisioners = contract.LocalPathProvisioner, []string{contract.LocalPathProvisioner}
			f.Users.Items, f.Claim.Annotations = nil, map[string]string{contract.AnnProvisionOnNode: "node-01"}
		}, "waits for the first pod", "create a pod that uses it\n"},
		"tainted": {func(f *Facts) {
			f.Nodes.Items[0].Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, "pod db-0 may run on no node: pod db-0's tolerations lack the node's taint gpu:NoSchedule", "tolerations of the pod"},
		"selected away": {func(f *Facts) {
			f.Users.Items[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-09"}
		},
			"pod db-0 may run on no node: pod db-0's nodeSelector is kubernetes.io/hostname=node-09", ""},
		"selected, too large": {func(f *Facts) {
			f.unscheduled("")
			f.Users.Items[0].Status = corev1.PodStatus{}
			f.Users.Items[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-02"}
			f.request("12Gi")
		}, "node node-02, the only one that pod db-0 may use, cannot hold the volume: 12Gi are requested", "create the claim again with at most 10Gi"},
		"topologies":     {func(f *Facts) { f.Class.It.AllowedTopologies = topologies("node-02") }, "allowedTopologies of class local leave it out", "another class"},
		"no agent there": {func(f *Facts) { f.Agents.Items = f.Agents.Items[1:] }, "node node-01 cannot hold the volume: no agent runs there", "kubectl get daemonsets"},
		"DaemonSet leaves the node out": {func(f *Facts) {
			f.Agents.Items = f.Agents.Items[1:]
			f.DaemonSets.Items = []appsv1.DaemonSet{agentsOn(map[string]string{corev1.LabelHostname: "node-02"})}
		}, "no agent runs there: DaemonSet agents leaves the node out: its nodeSelector is kubernetes.io/hostname=node-02", "kubectl -n hpp edit daemonset agents"},
		"DaemonSet has no pod there": {func(f *Facts) {
			f.Agents.Items = f.Agents.Items[1:]
			f.DaemonSets.Items = []appsv1.DaemonSet{agentsOn(nil)}
		}, "no agent runs there, although DaemonSet agents should have one", "kubectl -n hpp describe daemonset agents"},
		"the agent there serves others": {func(f *Facts) { f.Agents.Items[0].Provisioners = []string{contract.HostPathProvisioner} },
			"its agent serves kubevirt.io/hostpath-provisioner, and not kubevirt.io.hostpath-provisioner", "PROVISION"},
		"affinity": {func(f *Facts) {
			f.Users.Items[0].Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}}}}}}
		}, "pod db-0's affinity leaves the node out", "affinity"},
		"agent not ready": {func(f *Facts) {
			f.Capacities.Items = nil
			a := &f.Agents.Items[0]
			a.Ready, a.Why = false, "container x: ErrImagePull"
		}, "its agent is not ready: container x: ErrImagePull", "kubectl -n hpp describe pod agent-node-01"},
		"not registered":    {func(f *Facts) { f.CSINodes.Items[0].Spec.Drivers = nil }, "its kubelet has not registered the driver", "kubelet-dir"},
		"nothing published": {func(f *Facts) { f.Capacities.Items = f.Capacities.Items[1:] }, "it publishes no capacity for the class: it has no pool local, or the pool is not ready", ""},
		"too large":         {func(f *Facts) { f.request("12Gi") }, "12Gi are requested, and 10Gi are available in pool local", "create the claim again with at most 10Gi"},
		"too large for all": {func(f *Facts) { f.unscheduled("0/2"); f.Users.Items[0].Status = corev1.PodStatus{}; f.request("12Gi") }, "none of the 2 nodes can hold the volume: 12Gi are requested, and 10Gi are available in pool local", "create the claim again with at most 10Gi"},
		"reported as smaller": {func(f *Facts) { f.asked(func(_ int, r *inspect.Report) { r.Space.Available = gib / 2 }) },
			"1Gi are requested, and 512Mi are available in pool local", "create the claim again with at most 512Mi"},
		"no such pool": {func(f *Facts) { f.asked(func(_ int, r *inspect.Report) { r.Pool.Name = "other" }) }, "it has no pool local; it has other", ""},
		"pool is not ready, asked": {func(f *Facts) {
			f.asked(func(_ int, r *inspect.Report) { r.Pool.Name = "other" })
			f.Pools[0].Problem = "inspect pool fast: its disk is not mounted"
		}, "node node-01 cannot hold the volume: inspect pool fast: its disk is not mounted", ""},
		"pool is not ready, published": {func(f *Facts) {
			f.Capacities.Items[0].Capacity = ptr.To(resource.MustParse("0"))
			f.PoolEvents.Items = []corev1.Event{ofNode1(event("Warning", events.PoolNotReady, "the disk of pool local is not mounted"))}
		}, "node node-01 cannot hold the volume: the disk of pool local is not mounted", ""},
		"pool was not ready": {func(f *Facts) {
			f.Capacities.Items[0].Capacity = ptr.To(resource.MustParse("0"))
			f.PoolEvents.Items = []corev1.Event{ofNode1(event("Normal", events.PoolReady, "")), ofNode1(event("Warning", events.PoolNotReady, "the disk"))}
		}, "1Gi are requested, and 0 bytes are available in pool local", ""},
		"no inodes": {func(f *Facts) { f.asked(func(_ int, r *inspect.Report) { r.Space.NoInodes = true }) }, "the filesystem of pool local has no free inodes", ""},
		"no quota": {func(f *Facts) {
			f.Class.It.Parameters[contract.QuotaParameter] = "required"
			f.asked(func(_ int, r *inspect.Report) { r.Pool.NoQuotas = "tmpfs has none" })
		}, "class local requires a quota, and pool local enforces none: tmpfs has none", "docs/quotas.md"},
		"recorded by the agent": {func(f *Facts) {
			f.Events.Items = []corev1.Event{event("Warning", events.ProvisioningFailed, "the pool is not ready")}
		}, "60s ago, event ProvisioningFailed of the claim: the pool is not ready", ""},
		"PV missing":         {func(f *Facts) { f.volume(); f.PV.It = nil }, "the claim names PV pvc-c1, which does not exist", "ask an administrator before you delete it (may not run commands"},
		"PV missing, proven": {func(f *Facts) { f.volume(); f.PV.It = nil; f.asked(nil) }, "which does not exist", "delete the claim and create it again"},
		"PV missing, an orphan": {func(f *Facts) {
			f.volume()
			f.PV.It = nil
			f.asked(func(node int, r *inspect.Report) {
				if node == 1 { // the node is not the one that the claim names
					r.Volumes = []inspect.Volume{{Name: "pvc-c1", PV: "pvc-c1"}}
				}
			})
		}, "its data is there: directory pvc-c1 of /var/hpvolumes/csi on node node-02", "orphans show pvc-c1"},
		"another's PV": {func(f *Facts) { f.volume().Spec.ClaimRef.UID = "c2" }, "PV pvc-c1 is bound to claim shop/data, not to this one", "Retained volumes"},
		"deleted, used": {func(f *Facts) { f.volume(); f.Claim.DeletionTimestamp = ptr.To(ago(time.Hour)) },
			"the claim was deleted 60m ago, and pod db-0 uses it", "delete pod db-0 to have that; the data of PV pvc-c1 goes, too"},
		"deleted, kept": {func(f *Facts) {
			f.volume()
			f.Users.Items, f.Claim.DeletionTimestamp, f.Claim.Finalizers = nil, ptr.To(ago(time.Hour)), []string{"x/y"}
		}, `its finalizers ["x/y"] keep it`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene()
			row.spoil(f)
			answer := Explain(f)
			if !answer.Blocked() || answer.Findings[0].Level != Cause {
				t.Fatalf("the first finding is no cause:\n%s", text(answer))
			}
			if first := answer.Findings[0]; !strings.Contains(first.What, row.what) || !strings.Contains(first.Do+"\n", row.do) {
				t.Errorf("got\n%swant %q, and to do %q", text(answer), row.what, row.do)
			}
		})
	}
}

func (f *Facts) request(size string) {
	f.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
}

func topologies(node string) []corev1.TopologySelectorTerm {
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: contract.TopologyNode, Values: []string{node}}}}}
}

// An agent that is not ready and serves others is no cause, and nothing says that it serves a claim
// that it refuses.
func TestServesAllTheSame(t *testing.T) {
	for message, want := range map[string]bool{"": true, "node node-02 cannot serve this claim now from pool local in /x: no": true,
		"node node-01 cannot serve this claim now from pool local in /x: no": false} {
		f := scene()
		f.Agents.Items[0].Ready = false
		f.asked(nil)
		if message != "" {
			f.Events.Items = []corev1.Event{event("Warning", events.ProvisioningFailed, message)}
		}
		if got := text(Explain(f)); strings.Contains(got, "serves all the same") != want {
			t.Errorf("%q:\n%s", message, got)
		}
	}
}

// A cause that an event repeats is there once, and an event with another text is a second one.
func TestEventIsNotRepeated(t *testing.T) {
	for message, want := range map[string]int{"class fast does not exist": 1, "class fast does not exist: create it": 1, "the pool burns": 2} {
		f := scene()
		f.Claim.Spec.StorageClassName, f.Class.It = ptr.To("fast"), nil
		f.Events.Items = []corev1.Event{event("Warning", events.ProvisioningFailed, message)}
		if answer := Explain(f); len(answer.Findings) != want || len(answer.Events) != 1 {
			t.Errorf("%s: %d findings, want %d:\n%s", message, len(answer.Findings), want, text(answer))
		}
	}
}

// Nothing that is in order is a cause, and a claim that is bound has none.
func TestNoCause(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(f *Facts)
		want string
	}{
		"young":     {func(f *Facts) { f.NoPools = "" }, "nothing keeps this claim"},
		"not asked": {func(*Facts) {}, "unknown: unknown: may not run commands in the agents' pods"},
		"asked":     {func(f *Facts) { f.asked(nil) }, "nothing keeps this claim"},
		"one of two fits": {func(f *Facts) {
			f.unscheduled("")
			f.Users.Items[0].Status = corev1.PodStatus{}
			f.Agents.Items = f.Agents.Items[1:]
		}, ""},
		"tolerated": {func(f *Facts) {
			f.Nodes.Items[0].Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
			f.Users.Items[0].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, ""},
		"another pool is not ready": {func(f *Facts) {
			f.Agents.Items[0].Ready, f.Agents.Items[0].Why = false, "the readiness check fails"
			f.asked(nil)
			f.Pools[0].Problem = "inspect pool fast: its disk is not mounted"
			f.PoolEvents.Items = []corev1.Event{ofNode1(event("Warning", events.PoolNotReady, "the disk of pool fast is not mounted"))}
		}, "note: the agent of node node-01 is not ready and serves all the same: the disk of pool fast is not mounted"},
		"another pool is not ready, published": {func(f *Facts) { f.Agents.Items[0].Ready = false }, ""},
		"chosen, and cordoned since": {func(f *Facts) {
			f.hostPath(false)
			f.Users.Items, f.Claim.Annotations = nil, map[string]string{contract.AnnProvisionOnNode: "node-01"}
			f.Nodes.Items[0].Spec.Unschedulable = true
			f.tainted(corev1.TaintNodeUnschedulable, nil)
		}, ""},
		"cordoned, and tolerated": {func(f *Facts) {
			f.unscheduled("")
			f.Users.Items[0].Status = corev1.PodStatus{}
			f.tainted(corev1.TaintNodeUnschedulable, func(n *corev1.Node) { n.Spec.Unschedulable = true })
			f.Users.Items[0].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, ""},
		"allowed topology": {func(f *Facts) { f.Class.It.AllowedTopologies = topologies("node-01") }, ""},
		"bound":            {func(f *Facts) { f.volume() }, "note: its volume is on node node-01: PV pvc-c1, a CSI volume; the scheduler chose the node"},
		"bound by annotation": {func(f *Facts) {
			f.hostPath(true)
			f.volume()
			f.Claim.Annotations = map[string]string{contract.AnnProvisionOnNode: "node-01"}
		}, "the annotation kubevirt.io/provisionOnNode of the claim names the node"},
		"a populator fills it": {func(f *Facts) { f.Claim.Spec.DataSourceRef = importSource() }, `note: VolumeImportSource "import" fills the volume`},
		"a populator, no pod": {func(f *Facts) {
			f.Claim.Annotations, f.Users.Items, f.Claim.Spec.DataSourceRef = nil, nil, importSource()
		}, "note: the populator may wait for the first pod that uses the claim"},
		"a populator filled it":      {func(f *Facts) { f.volume(); f.Claim.Spec.DataSourceRef = importSource() }, "note: its volume is on node node-01"},
		"bound to a PV that existed": {func(f *Facts) { f.volume(); f.Claim.Annotations = nil }, "the claim was bound to a PV that existed"},
		"bound, full": {func(f *Facts) {
			f.volume()
			f.asked(func(_ int, r *inspect.Report) {
				r.Volumes = []inspect.Volume{{Name: "pvc-c1", PV: "pvc-c1", Quota: gib, Used: gib - 1}}
			})
		}, "warning: the volume is nearly full: 1024Mi of 1Gi"},
		"bound, missing": {func(f *Facts) {
			f.volume()
			f.asked(func(_ int, r *inspect.Report) { r.Volumes = []inspect.Volume{{PV: "pvc-c1", Missing: true}} })
		}, "warning: the directory of the volume is missing"},
		"bound, no quota": {func(f *Facts) {
			f.volume()
			f.asked(func(_ int, r *inspect.Report) {
				r.Pool.NoQuotas = "tmpfs has none"
				r.Volumes = []inspect.Volume{{PV: "pvc-c1"}}
			})
		}, "warning: no quota bounds what the volume takes: tmpfs has none"},
		"bound, migration stopped": {func(f *Facts) {
			f.volume()
			f.asked(func(_ int, r *inspect.Report) {
				r.Volumes = []inspect.Volume{{PV: "pvc-c1", Quota: gib, Migration: &inspect.Migration{To: "csi", Stopped: "a pod uses it"}}}
			})
		}, "warning: its migration to csi stopped: a pod uses it"},
		"bound, node gone":      {func(f *Facts) { f.volume(); f.Nodes.Items = f.Nodes.Items[1:] }, "warning: node node-01 does not exist"},
		"bound, node not ready": {func(f *Facts) { f.volume(); f.Nodes.Items[0].Status.Conditions = nil }, "warning: node node-01 is not ready"},
		"growing":               {func(f *Facts) { f.volume(); f.Class.It.AllowVolumeExpansion = ptr.To(true); f.request("2Gi") }, "warning: the claim has 1Gi and requests 2Gi: the volume has not grown yet"},
		"growth not allowed":    {func(f *Facts) { f.volume(); f.request("2Gi") }, "warning: the claim has 1Gi and requests 2Gi, and class local does not allow growth"},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene()
			row.edit(f)
			if answer := Explain(f); answer.Blocked() || !strings.Contains(text(answer), row.want) {
				t.Errorf("got\n%swant no cause, and %q", text(answer), row.want)
			}
		})
	}
}

// What the user may not read is unknown: it is never taken for absent.
func TestUnknown(t *testing.T) {
	const denied = "may not list it"
	for name, deny := range map[string]func(f *Facts){
		"nodes":       func(f *Facts) { f.Nodes = cluster.List[corev1.Node]{Unknown: denied} },
		"agents":      func(f *Facts) { f.Agents = cluster.List[cluster.Agent]{Unknown: denied} },
		"class":       func(f *Facts) { f.Class = cluster.Object[storagev1.StorageClass]{Unknown: denied} },
		"capacities":  func(f *Facts) { f.Capacities = cluster.List[storagev1.CSIStorageCapacity]{Unknown: denied} },
		"pods":        func(f *Facts) { f.Users = cluster.List[corev1.Pod]{Unknown: denied} },
		"csinodes":    func(f *Facts) { f.CSINodes = cluster.List[storagev1.CSINode]{Unknown: denied} },
		"PV's events": func(f *Facts) { f.volume(); f.PVEvents = cluster.List[corev1.Event]{Unknown: denied} },
		"events":      func(f *Facts) { f.Events = cluster.List[corev1.Event]{Unknown: denied} },
		"PV":          func(f *Facts) { f.volume(); f.PV = cluster.Object[corev1.PersistentVolume]{Unknown: denied} },
		"everything": func(f *Facts) {
			*f = Facts{Now: now, Claim: f.Claim, Nodes: cluster.List[corev1.Node]{Unknown: denied}, Class: cluster.Object[storagev1.StorageClass]{Unknown: denied},
				Agents: cluster.List[cluster.Agent]{Unknown: denied}, Capacities: cluster.List[storagev1.CSIStorageCapacity]{Unknown: denied}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene()
			f.NoPools = ""
			deny(f)
			answer := Explain(f)
			if answer.Blocked() || !strings.Contains(text(answer), "unknown: unknown: "+denied) {
				t.Errorf("got\n%swant no cause, and what is unknown", text(answer))
			}
		})
	}
}

// nodes gives the scene as many nodes as a large cluster has; all have 10 GiB.
func (f *Facts) nodes(count int) {
	node, agent, csi := f.Nodes.Items[0], f.Agents.Items[0], f.CSINodes.Items[0]
	f.Nodes.Items, f.Agents.Items, f.CSINodes.Items, f.Capacities.Items = nil, nil, nil, nil
	for i := range count {
		name := fmt.Sprintf("ip-10-0-%05d.eu-central-1.compute.internal", i)
		n, a, c := *node.DeepCopy(), agent, *csi.DeepCopy()
		n.Name, a.Node, c.Name = name, name, name
		n.Labels = map[string]string{corev1.LabelHostname: name, contract.TopologyNode: name}
		f.Nodes.Items, f.Agents.Items, f.CSINodes.Items = append(f.Nodes.Items, n), append(f.Agents.Items, a), append(f.CSINodes.Items, c)
		f.Capacities.Items = append(f.Capacities.Items, storagev1.CSIStorageCapacity{StorageClassName: "local", Capacity: ptr.To(resource.MustParse("10Gi")),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: name}}})
	}
}

// The time grows with the nodes, not with their square: four times as many take at most eight times as
// long, of the shortest of three.
func TestExplainIsLinear(t *testing.T) {
	took := func(count int) time.Duration {
		f := scene()
		f.unscheduled("0/2")
		f.request("1Ti")
		f.nodes(count)
		shortest := time.Hour
		for range 3 {
			began := time.Now()
			Explain(f)
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	few, many := took(1000), took(4000)
	t.Logf("1,000 nodes: %s, 4,000: %s", few, many)
	if many > 8*few && many > 200*time.Millisecond {
		t.Errorf("1,000 nodes take %s, and 4,000 take %s", few, many)
	}
}

func BenchmarkExplain(b *testing.B) {
	for _, count := range []int{100, 1000, 2000} {
		b.Run(fmt.Sprintf("%d nodes", count), func(b *testing.B) {
			f := scene()
			f.unscheduled("0/2")
			f.request("1Ti")
			f.nodes(count)
			for b.Loop() {
				Explain(f)
			}
		})
	}
}

// A capacity that names no node is that of the nodes that it selects.
func TestPublishedBySelector(t *testing.T) {
	f := scene()
	f.Capacities.Items = []storagev1.CSIStorageCapacity{{StorageClassName: "local", Capacity: ptr.To(resource.MustParse("512Mi")),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: "node-01"}}}}
	if got := text(Explain(f)); !strings.Contains(got, "1Gi are requested, and 512Mi are available") {
		t.Error(got)
	}
}

// Agents are asked for their pools where the volume could be: also if the claim names a node that
// does not exist.
func TestServing(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(f *Facts)
		want int
	}{
		"the node": {func(*Facts) {}, 1}, "no node": {func(f *Facts) { f.Claim.Annotations = nil }, 2},
		"a node that does not exist": {func(f *Facts) { f.Claim.Annotations[contract.AnnSelectedNode] = "node-09" }, 2},
		"another provisioner":        {func(f *Facts) { f.Class.It.Provisioner = "other" }, 0},
		"the PV is lost":             {func(f *Facts) { f.Claim.Spec.VolumeName, f.Agents.Items[1].Provisioners = "pvc-c1", nil }, 2},
		"raw disks":                  {func(f *Facts) { f.Agents.Items[0].Process = cluster.DiskAgent }, 0},
	} {
		f := scene()
		row.edit(f)
		if got := f.serving(); len(got) != row.want {
			t.Errorf("%s: %d agents, want %d", name, len(got), row.want)
		}
	}
}

// An agent that does not answer makes its pools unknown, and is no cause.
func TestAgentThatDoesNotAnswer(t *testing.T) {
	f := scene()
	f.asked(nil)
	f.Pools[0].Reports, f.Pools[0].Problem = nil, "no answer within 10s (--timeout)"
	answer := Explain(f)
	if answer.Blocked() || !strings.Contains(text(answer), "unknown: the pools of node node-01: no answer within 10s (--timeout) => kubectl -n hpp describe pod agent-node-01") {
		t.Errorf("got\n%s", text(answer))
	}
}

// Every reason of an event is explained where it is recorded: with its message, and with what the
// reference asks for.
func TestEveryReason(t *testing.T) {
	for _, r := range events.Reasons() {
		for object, put := range map[string]func(f *Facts, e corev1.Event){
			"claim": func(f *Facts, e corev1.Event) { f.Events.Items = []corev1.Event{e} },
			"PV":    func(f *Facts, e corev1.Event) { f.volume(); f.PVEvents.Items = []corev1.Event{e} },
			"node":  func(f *Facts, e corev1.Event) { f.NodeEvents.Items = []corev1.Event{e} },
		} {
			if !strings.Contains(r.Object, object) {
				continue
			}
			f := scene()
			put(f, event(r.Type, r.Name, "because of the moon"))
			answer := Explain(f)
			if len(answer.Events) != 1 || answer.Events[0].Object != object || answer.Events[0].Message != "because of the moon" ||
				(answer.Events[0].Do == "") != (r.Action == "") || strings.Contains(answer.Events[0].Do, "](") {
				t.Errorf("%s of a %s: events %+v", r.Name, object, answer.Events)
			}
			do := answer.Events[0].Do
			if strings.HasPrefix(do, "do what the message says") {
				do = ""
			}
			if warned := strings.Contains(text(answer), "event "+r.Name+" of the "+object+": because of the moon => "+do+"\n"); warned != (r.Type == "Warning") {
				t.Errorf("%s of a %s, a %s, among the findings: %t\n%s", r.Name, object, r.Type, warned, text(answer))
			}
		}
	}
}
