package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// read reads the facts about a claim of the namespace shop, as the command does.
func read(t testing.TB, c *scene.Cluster, name string) *Facts {
	t.Helper()
	reader, ask := c.Reader(t)
	f := Read(t.Context(), reader, ask, reader.Claim(t.Context(), "shop", name).It)
	return &f
}

// text returns the findings as lines of level, what and what to do.
func text(a Answer) string {
	var b strings.Builder
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "%s: %s => %s\n", f.Level, f.What, f.Do)
	}
	return b.String()
}

// situation is a change of the healthy cluster, in which the claim shop/new waits, or of shop/data.
type situation struct {
	change func(c *scene.Cluster)
	// scheduler is what kube-scheduler has in the condition of pod web-0. event is what an agent, or the
	// controller of PVs, records about the claim.
	scheduler, event string
	// causes are words of the causes in their order, and all of them; do is what to do about the first.
	causes []string
	do     string
	// also is in the other findings, and not in none of them.
	also, not string
}

// The scheduler's words, as kube-scheduler 1.30 to 1.37 has them.
const (
	tooSmall     = "0/2 nodes are available: 2 node(s) did not have enough free storage. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	noPVs        = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	cordoned     = "0/2 nodes are available: 2 node(s) were unschedulable. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	otherNodes   = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	notBound     = `running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "new"`
	noConsumer   = "class local waits for the first pod that uses the claim (WaitForFirstConsumer), and no pod does"
	hostPathSize = "1Gi are requested, and 512Mi are available in pool hostpath"
)

// wait makes shop/new a claim for which the scheduler has not chosen a node.
func wait(c *scene.Cluster) { c.Claim("new").Annotations = nil }

// request makes the claim larger than every pool, or smaller.
func request(c *scene.Cluster, size string) {
	c.Claim("new").Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
}

// tainted gives both nodes a taint, as Kubernetes does for a condition.
func tainted(key string, edit func(*corev1.Node)) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		for _, name := range []string{"node-01", "node-02"} {
			n := c.Node(name)
			if n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}; edit != nil {
				edit(n)
			}
		}
	}
}

func classOf(c *scene.Cluster, name *string) { wait(c); c.Claim("new").Spec.StorageClassName = name }

func noPod(c *scene.Cluster) { wait(c); scene.Drop[corev1.Pod](c, "web-0") }

// hostPath makes the class of the claim one of another provisioner, which the agents serve.
func hostPath(c *scene.Cluster, provisioner string, delayed bool) {
	mode := storagev1.VolumeBindingImmediate
	if delayed {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	class := c.Class("local")
	class.Provisioner, class.VolumeBindingMode, class.Parameters = provisioner, &mode, nil
	scene.Drop[storagev1.CSIStorageCapacity](c)
	for _, node := range []string{"node-01", "node-02"} {
		if c.Pools[node][0].Pool.Name = "hostpath"; provisioner == contract.LocalPathProvisioner {
			c.Agent(node).Spec.Containers[0].Env[0] = corev1.EnvVar{Name: "COMPAT", Value: "local-path"}
		}
	}
	if provisioner == contract.HostPathProvisioner {
		c.Provision("hostpath")
	}
}

func own(delayed bool) func(*scene.Cluster) {
	return func(c *scene.Cluster) { hostPath(c, contract.HostPathProvisioner, delayed) }
}

// twoPools gives the agents a small pool for hostPath claims in PV_DIR, and a large one of the driver.
func twoPools(c *scene.Cluster, pvDir string) {
	own(true)(c)
	for _, node := range []string{"node-01", "node-02"} {
		c.Agent(node).Spec.Containers[0].Env = append(c.Agent(node).Spec.Containers[0].Env, corev1.EnvVar{Name: "PV_DIR", Value: pvDir})
		small := c.Pools[node][0]
		large := small
		small.Pool.Path, small.Space.Available = "/var/hpvolumes", scene.GiB/2
		large.Pool.Name, large.Pool.Path = "fast", "/mnt/fast/csi"
		c.Pools[node] = []inspect.Report{small, large}
	}
}

// pools changes the pools of both nodes.
func pools(edit func(r *inspect.Report)) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		for _, reports := range c.Pools {
			edit(&reports[0])
		}
	}
}

// published changes what both nodes publish; their agents cannot be asked.
func published(size string) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		c.Forbidden = []string{"pods/exec"}
		for _, name := range []string{"local-node-01", "local-node-02"} {
			scene.Get[storagev1.CSIStorageCapacity](c, name).Capacity = ptr.To(resource.MustParse(size))
		}
	}
}

// all makes several changes.
func all(changes ...func(*scene.Cluster)) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		for _, change := range changes {
			change(c)
		}
	}
}

// importSource is that of a claim which CDI fills, as for every disk of a VM that is imported.
func importSource(c *scene.Cluster) {
	c.Claim("new").Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: ptr.To("cdi.kubevirt.io"), Kind: "VolumeImportSource", Name: "import"}
}

func topologies(node string) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		c.Class("local").AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: contract.TopologyNode, Values: []string{node}}}}}
	}
}

func selecting(node string) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		c.Pod("web-0").Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
}

// lost makes the PV of shop/new one that does not exist.
func lost(c *scene.Cluster) {
	c.Claim("new").Spec.VolumeName, c.Claim("new").Status.Phase = "pvc-new", corev1.ClaimLost
}

// given names a PV in the claim that is not bound to it.
func given(edit func(pv *corev1.PersistentVolume)) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		pv := scene.CSIPV("by-hand", "node-01", "", "")
		pv.Spec.ClaimRef, pv.Status.Phase, pv.Spec.AccessModes = nil, corev1.VolumeAvailable, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		edit(pv)
		c.Add(pv)
		c.Claim("new").Spec.VolumeName = "by-hand"
	}
}

var situations = map[string]situation{
	// The claim and its class.
	"no class, none is the default": {change: func(c *scene.Cluster) { classOf(c, nil); c.Class("local").Annotations = nil }, causes: []string{"names no class, and no class is the default"}, do: "that the agents serve (local)"},
	"no class, one is the default":  {change: func(c *scene.Cluster) { classOf(c, nil) }, also: "class local is the default, and kube-controller-manager gives it to the claim", not: "no class is the default"},
	"no class, two are the default": {change: func(c *scene.Cluster) { classOf(c, nil); c.Class("cloud").Annotations = c.Class("local").Annotations }, also: "several are the default (cloud, local)"},
	"no class, classes unknown":     {change: func(c *scene.Cluster) { classOf(c, nil); c.Forbidden = []string{"storageclasses"} }, also: "unknown: may not list storageclasses", not: "is the default"},
	"empty class":                   {change: func(c *scene.Cluster) { classOf(c, ptr.To("")) }, causes: []string{"the empty class"}, do: "create a PV without a class"},
	"missing class": {change: func(c *scene.Cluster) { classOf(c, ptr.To("fast")) }, event: `storageclass.storage.k8s.io "fast" not found`,
		causes: []string{"class fast does not exist", `"fast" not found`}, do: "(local)"},
	"missing class, none is served": {change: func(c *scene.Cluster) { classOf(c, ptr.To("fast")); scene.Drop[storagev1.StorageClass](c) }, causes: []string{"class fast does not exist"}, do: "docs/storage-classes.md"},
	"another provisioner": {change: func(c *scene.Cluster) { c.Class("local").Provisioner = "ebs.csi.aws.com" },
		causes: []string{"provisioner ebs.csi.aws.com, which is none of these agents; they serve kubevirt.io.hostpath-provisioner"}, do: "another class"},
	"not served": {change: func(c *scene.Cluster) { c.Class("local").Provisioner = contract.LocalPathProvisioner },
		causes: []string{"no agent serves provisioner rancher.io/local-path of class local; the agents serve kubevirt.io.hostpath-provisioner"}, do: "PROVISION or COMPAT"},
	"no agents":       {change: func(c *scene.Cluster) { scene.Drop[corev1.Pod](c, "agent-node-01", "agent-node-02", "disks-node-01") }, causes: []string{"no agent of hostpath-provisioner runs in this cluster"}, do: "docs/install.md"},
	"wrong parameter": {change: func(c *scene.Cluster) { c.Class("local").Parameters = map[string]string{"storagepool": "x"} }, causes: []string{`unknown parameters ["storagepool"]`}},
	"access mode": {change: func(c *scene.Cluster) { c.Claim("new").Spec.AccessModes[0] = corev1.ReadWriteMany }, event: `access mode ReadWriteMany is not supported: a volume of class "local" is a directory on one node; use ReadWriteOnce or ReadWriteOncePod`,
		causes: []string{"access mode ReadWriteMany is not supported"}, do: "create the claim again"},
	"a populator, no class": {change: func(c *scene.Cluster) { importSource(c); classOf(c, ptr.To("fast")) }, causes: []string{"class fast does not exist"}},
	"block":                 {change: func(c *scene.Cluster) { c.Claim("new").Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, causes: []string{"volumeMode Block is not supported"}},
	"CSI class binds at once": {change: func(c *scene.Cluster) { wait(c); c.Class("local").VolumeBindingMode = nil }, scheduler: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
		causes: []string{"no node will be chosen for this claim"}, also: "unbound immediate"},
	"no node is named": {change: all(wait, own(false)), causes: []string{"no node is named for this claim"}},
	"raw disks": {change: func(c *scene.Cluster) { classOf(c, ptr.To("raw")) }, scheduler: noPVs,
		causes: []string{"class raw has no provisioner: its PVs are made beforehand, and none was bound"}, also: "didn't find available persistent volumes", do: "docs/raw-disks.md"},
	"raw disks, no pod":         {change: func(c *scene.Cluster) { noPod(c); c.Claim("new").Spec.StorageClassName = ptr.To("raw") }, causes: []string{"class raw waits for the first pod that uses the claim"}, do: "create a pod"},
	"raw disks, agents unknown": {change: func(c *scene.Cluster) { classOf(c, ptr.To("raw")); c.Forbidden = []string{"daemonsets"} }, causes: []string{"class raw has no provisioner"}, do: "docs/raw-disks.md"},

	// Its node.
	"named node missing": {change: func(c *scene.Cluster) {
		own(true)(c)
		c.Claim("new").Annotations = map[string]string{contract.AnnProvisionOnNode: "node-09"}
	}, causes: []string{`names node "node-09", which does not exist`}, do: "--overwrite kubevirt.io/provisionOnNode=NODE"},
	"chosen node missing": {change: func(c *scene.Cluster) { c.Claim("new").Annotations[contract.AnnSelectedNode] = "node-09" },
		causes: []string{"the scheduler chose node node-09, which does not exist any more"}, do: "kubectl -n shop annotate pvc new volume.kubernetes.io/selected-node-"},
	"chosen node not ready": {change: func(c *scene.Cluster) { c.NotReady("node-01") }, causes: []string{"node node-01 cannot hold the volume: it is not ready"}, do: "kubectl describe node node-01"},
	"chosen, and cordoned since": {change: func(c *scene.Cluster) {
		noPod(c)
		own(false)(c)
		c.Claim("new").Annotations = map[string]string{contract.AnnProvisionOnNode: "node-01"}
		tainted(corev1.TaintNodeUnschedulable, func(n *corev1.Node) { n.Spec.Unschedulable = true })(c)
	}, also: "nothing keeps this claim"},

	// Its pod.
	"no consumer": {change: noPod, causes: []string{noConsumer}, do: "create a pod that uses it"},
	"no consumer, and too large": {change: func(c *scene.Cluster) { noPod(c); request(c, "60Gi") },
		causes: []string{noConsumer, "none of the 2 nodes can hold the volume: 60Gi are requested"}},
	"no consumer, hostPath": {change: func(c *scene.Cluster) { own(true)(c); noPod(c) }, causes: []string{"and no pod does"}, do: "or annotate the claim with kubevirt.io/provisionOnNode: NODE"},
	"local-path knows no annotation": {change: func(c *scene.Cluster) {
		hostPath(c, contract.LocalPathProvisioner, true)
		noPod(c)
		c.Claim("new").Annotations = map[string]string{contract.AnnProvisionOnNode: "node-01"}
	}, causes: []string{"waits for the first pod"}, do: "create a pod that uses it\n"},
	"local-path ignores the annotation": {change: func(c *scene.Cluster) { // its agents do: contract.NodeOf
		hostPath(c, contract.LocalPathProvisioner, true)
		c.Claim("new").Annotations[contract.AnnProvisionOnNode] = "node-09"
	}, also: "nothing keeps this claim", not: "node-09"},
	"a pod that ends is none": {change: func(c *scene.Cluster) { wait(c); c.Pod("web-0").DeletionTimestamp = ptr.To(scene.Ago(0)) }, causes: []string{"waits for the first pod"}},
	"one pod ends, another waits": {change: func(c *scene.Cluster) {
		wait(c)
		ending := scene.UserOf("a-web", "new", "")
		ending.DeletionTimestamp, ending.Spec.NodeSelector = ptr.To(scene.Ago(0)), map[string]string{corev1.LabelHostname: "node-09"}
		c.Objects = append([]runtime.Object{ending}, c.Objects...)
	}, scheduler: "0/2 nodes are available: 2 Insufficient cpu.", causes: []string{"pod web-0, which uses the claim, is not scheduled: 0/2 nodes are available: 2 Insufficient cpu."}},
	"one pod has a gate, another waits": {change: func(c *scene.Cluster) {
		wait(c)
		gated := scene.UserOf("a-web", "new", "")
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
		c.Objects = append([]runtime.Object{gated}, c.Objects...)
	}, scheduler: "0/2 nodes are available: 2 Insufficient cpu.", causes: []string{"pod web-0, which uses the claim, is not scheduled: 0/2"}},
	"pod names node": {change: func(c *scene.Cluster) { wait(c); c.Pod("web-0").Spec.NodeName = "node-01" }, causes: []string{"pod web-0 names its node node-01 itself"}, do: "nodeSelector"},
	"gate": {change: func(c *scene.Cluster) {
		wait(c)
		c.Pod("web-0").Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	}, causes: []string{`pod web-0 has the scheduling gate "wait"`}, do: "remove the gate"},
	"no scheduler": {change: func(c *scene.Cluster) {
		wait(c)
		c.Pod("web-0").Spec.SchedulerName, c.Pod("web-0").CreationTimestamp = "my-scheduler", scene.Ago(10*time.Minute)
	}, causes: []string{`no scheduler has tried to place pod web-0 for 10m: it names the scheduler "my-scheduler"`}, do: "schedulerName"},
	"selected away": {change: all(wait, selecting("node-09")), scheduler: otherNodes,
		causes: []string{"pod web-0 may run on no node: pod web-0's nodeSelector is kubernetes.io/hostname=node-09"}, also: "didn't match Pod's node affinity", do: "tolerations of the pod"},
	"selected, too large": {change: func(c *scene.Cluster) { wait(c); selecting("node-02")(c); request(c, "60Gi") }, scheduler: "0/2 nodes are available: 1 node(s) did not have enough free storage, 1 node(s) didn't match Pod's node affinity/selector.",
		causes: []string{"node node-02, the only one that pod web-0 may use, cannot hold the volume: 60Gi are requested"}, do: "create the claim again with at most 50Gi", also: "did not have enough free storage"},
	"affinity": {change: func(c *scene.Cluster) {
		wait(c)
		c.Pod("web-0").Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}}}}}}
	}, scheduler: otherNodes, causes: []string{"pod web-0's affinity leaves the node out"}, do: "affinity"},
	"other reasons than storage": {change: wait, scheduler: "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had volume node affinity conflict.",
		causes: []string{"is not scheduled: 0/2 nodes are available: 1 Insufficient memory, 1 node(s) had volume node affinity conflict."}},
	"half lacks space, half memory": {change: func(c *scene.Cluster) { wait(c); c.Pools["node-01"][0].Space.Available = 0 }, scheduler: "0/2 nodes are available: 1 Insufficient memory, 1 node(s) did not have enough free storage.",
		causes: []string{"1 Insufficient memory, 1 node(s) did not have enough free storage"}},

	// What Kubernetes says of the nodes.
	"tainted": {change: all(wait, tainted("gpu", nil)), scheduler: "0/2 nodes are available: 2 node(s) had untolerated taint {gpu: }. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		causes: []string{"pod web-0 may run on no node: pod web-0's tolerations lack the node's taint gpu:NoSchedule"}, do: "tolerations of the pod"},
	"cordoned": {change: all(wait, tainted(corev1.TaintNodeUnschedulable, nil)), scheduler: cordoned, causes: []string{"none of the 2 nodes can hold the volume: it is cordoned"}, do: "kubectl uncordon node-01"},
	"cordoned, not tainted yet": {change: func(c *scene.Cluster) {
		wait(c)
		c.Node("node-01").Spec.Unschedulable, c.Node("node-02").Spec.Unschedulable = true, true
	}, scheduler: cordoned, causes: []string{"none of the 2 nodes can hold the volume: it is cordoned"}, do: "kubectl uncordon node-01"},
	"unreachable": {change: all(wait, tainted(corev1.TaintNodeUnreachable, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })),
		scheduler: "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.", causes: []string{"none of the 2 nodes can hold the volume: it is not ready"}, do: "kubectl describe node node-01"},
	"a full disk of kubelets": {change: all(wait, tainted(corev1.TaintNodeDiskPressure, nil)), scheduler: "0/2 nodes are available: 2 node(s) had untolerated taint(s) {node.kubernetes.io/disk-pressure: }.",
		causes: []string{"the disk of its kubelet is nearly full (DiskPressure)"}, do: "free space there"},
	"one cordoned, one too small": {change: func(c *scene.Cluster) {
		wait(c)
		c.Node("node-01").Spec.Unschedulable = true
		c.Pools["node-02"][0].Space.Available = 0
	},
		scheduler: "0/2 nodes are available: 1 node(s) did not have enough free storage, 1 node(s) were unschedulable.", causes: []string{"none of the 2 nodes can hold the volume: it is cordoned (1 of them)"}},
	"one is of Windows": {change: func(c *scene.Cluster) {
		wait(c)
		request(c, "60Gi")
		c.Node("node-02").Labels[corev1.LabelOSStable] = "windows"
	},
		causes: []string{"node node-01 cannot hold the volume: 60Gi are requested"}},
	"topologies": {change: func(c *scene.Cluster) { wait(c); topologies("node-09")(c) }, scheduler: noPVs, causes: []string{"allowedTopologies of class local leave it out"}, do: "another class"},

	// The agents.
	"no agent there": {change: func(c *scene.Cluster) { scene.Drop[corev1.Pod](c, "agent-node-01"); scene.Drop[appsv1.DaemonSet](c) }, causes: []string{"node node-01 cannot hold the volume: no agent runs there"}, do: "kubectl get daemonsets"},
	"DaemonSet leaves the node out": {change: func(c *scene.Cluster) {
		scene.Drop[corev1.Pod](c, "agent-node-01")
		scene.Get[appsv1.DaemonSet](c, "agents").Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-02"}
	}, causes: []string{"no agent runs there: DaemonSet agents leaves the node out: its nodeSelector is kubernetes.io/hostname=node-02"}, do: "kubectl -n hpp edit daemonset agents"},
	"DaemonSets are unknown": {change: func(c *scene.Cluster) {
		scene.Drop[corev1.Pod](c, "agent-node-01")
		c.Forbidden = []string{"daemonsets"}
	}, causes: []string{"no agent runs there"}, also: "unknown: may not list daemonsets"},
	"DaemonSet has no pod there":    {change: func(c *scene.Cluster) { scene.Drop[corev1.Pod](c, "agent-node-01") }, causes: []string{"no agent runs there, although DaemonSet agents should have one"}, do: "kubectl -n hpp describe daemonset agents"},
	"the agent there serves others": {change: func(c *scene.Cluster) { c.Agent("node-01").Spec.Containers[0].Env[0].Value = "hostpath" }, causes: []string{"its agent serves kubevirt.io/hostpath-provisioner, and not kubevirt.io.hostpath-provisioner"}, do: "PROVISION"},
	"agent not ready": {change: func(c *scene.Cluster) {
		scene.Drop[storagev1.CSIStorageCapacity](c)
		delete(c.Pools, "node-01")
		c.Agent("node-01").Status = corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}}
	}, causes: []string{"its agent is not ready: container x: ErrImagePull"}, do: "kubectl -n hpp describe pod agent-node-01"},
	"an agent is rolled out": {change: func(c *scene.Cluster) {
		fresh := scene.AgentPod("node-01")
		fresh.Name, fresh.Status.Conditions = "z-agent", nil
		c.Add(fresh)
	}, also: "nothing keeps this claim"},
	"not registered": {change: func(c *scene.Cluster) { scene.Get[storagev1.CSINode](c, "node-01").Spec.Drivers = nil }, causes: []string{"its kubelet has not registered the driver"}, do: "kubelet-dir"},
	"another pool is not ready": {change: func(c *scene.Cluster) {
		c.Agent("node-01").Status.Conditions = nil
		c.Prints["agent-node-01 inspect"] = scene.Answer{Out: scene.JSON(c.Pools["node-01"]...).Out, Err: "hostpath-provisioner: inspect pool fast: its disk is not mounted", Code: 1}
		c.Event("Node", "node-01", events.PoolNotReady, "the disk of pool fast is not mounted")
	}, also: "note: the agent of node node-01 is not ready and serves all the same: the disk of pool fast is not mounted"},
	"refused by that agent": {change: func(c *scene.Cluster) {
		c.Agent("node-01").Status.Conditions = nil
		c.Event("PersistentVolumeClaim", "new", "ExternalProvisioning", "Waiting for a volume to be created").Type = corev1.EventTypeNormal
	}, event: "node node-01 cannot serve this claim now from pool local in /x: no", causes: []string{"cannot serve this claim now"}, not: "serves all the same"},
	"refused by another agent": {change: func(c *scene.Cluster) { c.Agent("node-01").Status.Conditions = nil }, event: "node node-02 cannot serve this claim now from pool local in /x: no",
		causes: []string{"cannot serve this claim now"}, also: "serves all the same"},
	"the agent does not answer": {change: func(c *scene.Cluster) { delete(c.Pools, "node-01") }, also: "unknown: the pools of node node-01: unable to upgrade connection: there is no kubelet => kubectl -n hpp describe pod agent-node-01"},
	"a tenant's pod":            {change: func(c *scene.Cluster) { c.Agent("node-01").Spec.Volumes = nil }, also: "it has no directory of its node (hostPath)", not: "no agent runs there"},
	"an older agent":            {change: func(c *scene.Cluster) { c.Pools["node-01"][0].Pool.Name = "" }, also: "nothing keeps this claim", not: "it has no pool"},
	"another program's pod":     {change: func(c *scene.Cluster) { c.Agent("node-01").Annotations = nil }, also: "unknown: the pools of node node-01: pod agent-node-01 is no agent that this plugin knows", not: "no agent runs there"},

	// The pools.
	"nothing published": {change: func(c *scene.Cluster) {
		scene.Drop[storagev1.CSIStorageCapacity](c, "local-node-01")
		c.Forbidden = []string{"pods/exec"}
	}, causes: []string{"it publishes no capacity for the class: it has no pool local, or the pool is not ready"}},
	"published as too small": {change: func(c *scene.Cluster) { published("512Mi")(c); wait(c) }, scheduler: tooSmall, causes: []string{"none of the 2 nodes can hold the volume: 1Gi are requested, and 512Mi are available in pool local"}, do: "create the claim again with at most 512Mi"},
	"two drivers publish": {change: func(c *scene.Cluster) {
		published("0")(c)
		second := scene.Get[storagev1.CSIStorageCapacity](c, "local-node-01").DeepCopy()
		second.Name, second.Capacity = "z", ptr.To(resource.MustParse("10Gi"))
		c.Add(second)
	}, also: "unknown: may not run commands"},
	"published by a selector": {change: func(c *scene.Cluster) {
		published("512Mi")(c)
		scene.Get[storagev1.CSIStorageCapacity](c, "local-node-01").NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: "node-01"}}
	}, causes: []string{"1Gi are requested, and 512Mi are available"}},
	"too large": {change: func(c *scene.Cluster) { request(c, "60Gi") }, event: "node node-01: 60Gi requested, 50Gi of 100Gi available in /var/hpvolumes/csi: request less, free space there, or choose another node",
		causes: []string{"60Gi are requested, and 50Gi are available in pool local", "60Gi requested, 50Gi of 100Gi"}, do: "create the claim again with at most 50Gi"},
	"too large for all": {change: func(c *scene.Cluster) { wait(c); request(c, "60Gi") }, scheduler: tooSmall,
		causes: []string{"none of the 2 nodes can hold the volume: 60Gi are requested, and 50Gi are available in pool local"}, do: "create the claim again with at most 50Gi", also: "did not have enough free storage"},
	"reported as smaller": {change: pools(func(r *inspect.Report) { r.Space.Available = scene.GiB / 2 }), causes: []string{"1Gi are requested, and 512Mi are available in pool local"}, do: "create the claim again with at most 512Mi"},
	"less than nothing":   {change: pools(func(r *inspect.Report) { r.Space.Available = -scene.GiB }), causes: []string{"1Gi are requested, and 0 bytes are available in pool local"}},
	"no such pool":        {change: pools(func(r *inspect.Report) { r.Pool.Name = "other" }), causes: []string{"it has no pool local; it has other"}},
	"pool is not ready, asked": {change: func(c *scene.Cluster) {
		pools(func(r *inspect.Report) { r.Pool.Name = "other" })(c)
		c.Prints["agent-node-01 inspect"] = scene.Answer{Out: scene.JSON(c.Pools["node-01"]...).Out, Err: "hostpath-provisioner: inspect pool local: its disk is not mounted", Code: 1}
	}, event: "node node-01 cannot serve this claim now from pool local in /var/hpvolumes/csi: its disk is not mounted; the agent retries when the pool is ready",
		causes: []string{"inspect pool local: its disk is not mounted", "cannot serve this claim now"}, do: "mount or repair its disk"},
	"pool is not ready, published": {change: func(c *scene.Cluster) {
		published("0")(c)
		c.Event("Node", "node-01", events.PoolNotReady, "the disk of pool local is not mounted")
	},
		causes: []string{"node node-01 cannot hold the volume: the disk of pool local is not mounted"}},
	"events of nodes are unknown": {change: func(c *scene.Cluster) {
		wait(c)
		published("0")(c)
		c.Forbidden = append(c.Forbidden, "default/events/")
	}, causes: []string{"0 bytes are available in pool local"}, also: "unknown: may not list events"},
	"pool was not ready": {change: func(c *scene.Cluster) {
		published("0")(c)
		c.Event("Node", "node-01", events.PoolNotReady, "the disk").LastTimestamp = scene.Ago(time.Hour)
		c.Event("Node", "node-01", events.PoolReady, "").Type = corev1.EventTypeNormal
	}, causes: []string{"1Gi are requested, and 0 bytes are available in pool local"}},
	"no inodes": {change: pools(func(r *inspect.Report) { r.Space.NoInodes = true }), event: "node node-01: the filesystem of /var/hpvolumes/csi has no free inodes, so no volume can be created there, however small",
		causes: []string{"the filesystem of pool local has no free inodes", "no volume can be created there"}, do: "remove small files"},
	"no quota": {change: func(c *scene.Cluster) {
		c.Class("local").Parameters[contract.QuotaParameter] = "required"
		pools(func(r *inspect.Report) { r.Pool.NoQuotas = "tmpfs has none" })(c)
	}, causes: []string{"class local requires a quota, and pool local enforces none: tmpfs has none"}, do: "docs/quotas.md"},
	"hostPath, space in a pool of the driver": {change: func(c *scene.Cluster) { twoPools(c, "/var/hpvolumes") }, causes: []string{hostPathSize}},
	"hostPath, PV_DIR is a named pool": {change: func(c *scene.Cluster) {
		twoPools(c, "/mnt/fast/csi")
		c.Pools["node-01"] = c.Pools["node-01"][1:]
		request(c, "60Gi")
	}, causes: []string{"60Gi are requested, and 50Gi are available in pool fast"}},
	"hostPath, the pool in PV_DIR is away": {change: func(c *scene.Cluster) { twoPools(c, "/elsewhere"); c.Pools["node-01"] = c.Pools["node-01"][1:] }, causes: []string{"it has no pool in PV_DIR; it has fast"}},
	"recorded by a clock that is ahead": {change: func(c *scene.Cluster) {
		c.Event("PersistentVolumeClaim", "new", "VolumeFailed", "no").LastTimestamp = scene.Ago(-time.Hour)
	}, causes: []string{"0s ago, event VolumeFailed of the claim: no"}},
	"recorded by the agent":                {change: func(*scene.Cluster) {}, event: "the pool is not ready", causes: []string{"60s ago, event ProvisioningFailed of the claim: the pool is not ready"}},
	"the pod waits for the refused volume": {change: wait, scheduler: notBound, event: "node node-01: 1Gi requested, 0 of 100Gi available", causes: []string{"1Gi requested, 0 of 100Gi available"}, also: "provisioning failed for PVC"},

	// A claim that names a PV.
	"PV missing":         {change: func(c *scene.Cluster) { lost(c); c.Forbidden = []string{"pods/exec"} }, causes: []string{"the claim names PV pvc-new, which does not exist"}, do: "ask an administrator before you delete it (may not run commands"},
	"PV missing, proven": {change: lost, causes: []string{"which does not exist"}, do: "delete the claim and create it again"},
	"PV missing, an orphan": {change: func(c *scene.Cluster) { // the node is not the one that the claim names
		lost(c)
		c.Pools["node-02"][0].Volumes = []inspect.Volume{{Name: "pvc-new", PV: "pvc-new"}}
	}, causes: []string{"its data is there: directory pvc-new of /var/hpvolumes/csi on node node-02"}, do: "orphans show pvc-new"},
	"PV missing, a tenant answers": { // whose pod is no proof that the node has nothing
		change: func(c *scene.Cluster) { lost(c); c.Agent("node-02").Spec.Volumes = nil }, causes: []string{"which does not exist"}, do: "ask an administrator before you delete it"},
	"another's PV": {change: func(c *scene.Cluster) {
		c.PV("pvc-1").Spec.ClaimRef = &corev1.ObjectReference{Namespace: "b", Name: "data", UID: "b"}
	},
		causes: []string{"PV pvc-1 is bound to claim b/data, not to this one"}, do: "Retained volumes"},
	"another's PV, a former claim's": {change: func(c *scene.Cluster) { c.Claim("data").UID = "c2" }, causes: []string{"PV pvc-1 is bound to a former claim shop/data, which was deleted, not to this one"}, do: "Retained volumes"},
	"a PV that is reserved by name": {change: given(func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "other"}
	}), causes: []string{"PV by-hand is bound to claim shop/other"}, do: "Retained volumes"},
	"PV missing, class made again": {change: func(c *scene.Cluster) { lost(c); c.Class("local").CreationTimestamp = scene.Ago(0) }, causes: []string{"which does not exist"},
		do: "ask an administrator before you delete it (its class was created after the claim"},
	"a PV of another class": {change: given(func(pv *corev1.PersistentVolume) { pv.Spec.StorageClassName = "other" }), event: `Cannot bind to requested volume "by-hand": storageClassName does not match`, causes: []string{"PV by-hand, and is not bound to it: the PV has class other, and the claim class local", "storageClassName does not match"}},
	"a PV that is too small": {change: given(func(pv *corev1.PersistentVolume) {
		pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
	}), causes: []string{"the PV has 1Mi, and the claim requests 1Gi"}},
	"a PV without the mode": {change: given(func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	}), causes: []string{"the PV lacks access mode ReadWriteOnce"}},
	"a PV of a disk":             {change: given(func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }), causes: []string{"the PV has volumeMode Block, and the claim Filesystem"}},
	"a PV that is about to bind": {change: given(func(*corev1.PersistentVolume) {}), also: "note: the claim names PV by-hand, which is not bound to it yet"},
	"deleted, used":              {change: func(c *scene.Cluster) { c.Claim("data").DeletionTimestamp = ptr.To(scene.Ago(time.Hour)) }, causes: []string{"the claim was deleted 60m ago, and pod db-0 uses it"}, do: "delete pod db-0 to have that; the data of PV pvc-1 goes, too"},
	"deleted, pods unknown": {change: func(c *scene.Cluster) {
		c.Claim("data").DeletionTimestamp, c.Forbidden = ptr.To(scene.Ago(time.Hour)), []string{"pods"}
	}, causes: []string{"keep it; whether a pod uses it is unknown: may not list pods"}},
	"deleted, kept": {change: func(c *scene.Cluster) {
		scene.Drop[corev1.Pod](c, "db-0")
		c.Claim("data").DeletionTimestamp, c.Claim("data").Finalizers = ptr.To(scene.Ago(time.Hour)), []string{"x/y"}
	}, causes: []string{`its finalizers ["x/y"] keep it`}},

	// Nothing keeps it.
	"young":                                {change: func(*scene.Cluster) {}, also: "nothing keeps this claim", not: "unknown"},
	"not asked":                            {change: published("50Gi"), also: "unknown: may not run commands in the agents' pods"},
	"one of two fits":                      {change: func(c *scene.Cluster) { wait(c); scene.Drop[corev1.Pod](c, "agent-node-01") }, also: "nothing keeps this claim"},
	"one node is not ready":                {change: func(c *scene.Cluster) { wait(c); c.NotReady("node-01") }, also: "nothing keeps this claim"},
	"tolerated":                            {change: all(wait, tainted("gpu", nil), tolerant), also: "nothing keeps this claim"},
	"cordoned, and tolerated":              {change: all(wait, tainted(corev1.TaintNodeUnschedulable, func(n *corev1.Node) { n.Spec.Unschedulable = true }), tolerant), also: "nothing keeps this claim"},
	"another pool is not ready, published": {change: func(c *scene.Cluster) { published("50Gi")(c); c.Agent("node-01").Status.Conditions = nil }, also: "serves all the same"},
	"allowed topology":                     {change: topologies("node-01"), also: "nothing keeps this claim"},
	"a populator fills it":                 {change: importSource, also: `note: VolumeImportSource "import" fills the volume`},
	"a populator, a name for a shell":      {change: func(c *scene.Cluster) { importSource(c); c.Claim("new").Spec.DataSourceRef.Name = "$(reboot)" }, also: "fills the volume", not: "kubectl -n shop describe"},
	"a populator, no pod":                  {change: all(importSource, noPod), also: "note: the populator may wait for the first pod that uses the claim"},

	// The volume is there.
	"bound": {change: bound, also: "note: its volume is on node node-01: PV pvc-1, a CSI volume; the scheduler chose the node", not: "warning"},
	"bound by annotation": {change: func(c *scene.Cluster) {
		own(true)(c)
		c.Claim("data").Annotations = map[string]string{contract.AnnProvisionOnNode: "node-01"}
	}, also: "the annotation kubevirt.io/provisionOnNode of the claim names the node"},
	"a populator filled it": {change: func(c *scene.Cluster) {
		importSource(c)
		c.Claim("data").Spec.DataSourceRef = c.Claim("new").Spec.DataSourceRef
	}, also: "note: its volume is on node node-01"},
	"bound to a PV that existed": {change: func(c *scene.Cluster) { c.Claim("data").Annotations = nil }, also: "the claim was bound to a PV that existed"},
	"bound, PV deleted": {change: func(c *scene.Cluster) { c.PV("pvc-1").DeletionTimestamp = ptr.To(scene.Ago(5 * time.Minute)) },
		also: "warning: PV pvc-1 was deleted 5m ago", do: "the data of PV pvc-1 goes, too"},
	"bound, PV deleted by a migration": {change: func(c *scene.Cluster) {
		c.PV("pvc-1").DeletionTimestamp, volume(c).Migration = ptr.To(scene.Ago(0)), &inspect.Migration{To: "csi"}
	}, also: "note: its volume is on node node-01", not: "warning"},
	"bound, full":    {change: func(c *scene.Cluster) { volume(c).Used = 10*scene.GiB - 1 }, also: "warning: the volume is nearly full: 10Gi of 10Gi"},
	"bound, missing": {change: func(c *scene.Cluster) { volume(c).Missing = true }, also: "warning: the directory of the volume is missing"},
	"bound, missing, the other node has it": {change: func(c *scene.Cluster) {
		volume(c).Missing = true
		c.Pools["node-02"][0].Volumes = []inspect.Volume{{Name: "pvc-1", PV: "pvc-1"}}
	}, also: "another pool may have it, and not all were read (those of other nodes)", not: "delete the claim"},
	"bound, missing, not all pools read": {change: func(c *scene.Cluster) {
		volume(c).Missing = true
		c.Prints["agent-node-01 inspect"] = scene.Answer{Out: scene.JSON(c.Pools["node-01"]...).Out, Err: "pool fast: not mounted", Code: 1}
	}, also: "another pool may have it, and not all were read (pool fast: not mounted)", not: "delete the claim"},
	"bound, its pod waits": {change: func(c *scene.Cluster) {
		bound(c)
		scene.Drop[corev1.Pod](c, "db-0")
		p := scene.UserOf("db-1", "data", "")
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "1 node(s) had volume node affinity conflict."}}
		c.Add(p)
	}, also: "note: pod db-1, which uses the claim, is not scheduled: 1 node(s) had volume node affinity conflict."},
	"bound, no quota":          {change: func(c *scene.Cluster) { volume(c).Quota = 0; c.Pools["node-01"][0].Pool.NoQuotas = "tmpfs has none" }, also: "warning: no quota bounds what the volume takes: tmpfs has none"},
	"bound, migration stopped": {change: func(c *scene.Cluster) { volume(c).Migration = &inspect.Migration{To: "csi", Stopped: "a pod uses it"} }, also: "warning: its migration to csi stopped: a pod uses it"},
	"bound, node gone":         {change: func(c *scene.Cluster) { bound(c); scene.Drop[corev1.Node](c, "node-01") }, also: "warning: node node-01 does not exist"},
	"bound, node renamed": {change: func(c *scene.Cluster) {
		bound(c)
		c.Claim("data").Spec.VolumeName = "pvc-h"
		c.Add(scene.HostPathPV("pvc-h", "node-01", "shop", "data"))
		c.Node("node-01").Labels[corev1.LabelHostname] = "new-name"
	}, also: `warning: PV pvc-h requires the hostname node-01, and node node-01 has "new-name": no pod with it can start => set the node's label`},
	"bound, node not ready": {change: func(c *scene.Cluster) { bound(c); c.NotReady("node-01") }, also: "warning: node node-01 is not ready"},
	"growing":               {change: func(c *scene.Cluster) { grown(c); c.Class("local").AllowVolumeExpansion = ptr.To(true) }, also: "warning: the claim has 10Gi and requests 20Gi: the volume has not grown yet"},
	"growth not allowed":    {change: grown, also: "warning: the claim has 10Gi and requests 20Gi, and class local does not allow growth"},
}

func tolerant(c *scene.Cluster) {
	c.Pod("web-0").Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// bound makes shop/data the claim of the row.
func bound(c *scene.Cluster) { scene.Drop[corev1.PersistentVolumeClaim](c, "new") }

func volume(c *scene.Cluster) *inspect.Volume { bound(c); return &c.Pools["node-01"][0].Volumes[0] }

func grown(c *scene.Cluster) {
	bound(c)
	c.Claim("data").Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("20Gi")
}

// In each situation the first cause is the true one, with what to do; what the scheduler and the events
// say is below it, once; and the nodes of the table are as the scheduler counts them.
func TestSituations(t *testing.T) {
	for name, row := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := scene.Healthy()
			row.change(c)
			claim := "new"
			if strings.HasPrefix(name, "bound") || strings.HasPrefix(name, "grow") || strings.HasPrefix(name, "deleted") || strings.Contains(name, "another's PV") || name == "a populator filled it" {
				claim = "data"
			}
			if row.scheduler != "" {
				c.Pod("web-0").Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: row.scheduler}}
			}
			if row.event != "" {
				c.Event("PersistentVolumeClaim", claim, events.ProvisioningFailed, row.event).LastTimestamp = scene.Ago(time.Minute)
			}
			answer := Explain(read(t, c, claim))
			agree(t, &row, &answer)
		})
	}
}

func agree(t *testing.T, row *situation, answer *Answer) {
	t.Helper()
	for i, n := range answer.Nodes {
		if slices.ContainsFunc(answer.Nodes[:i], func(o Node) bool { return o.Name == n.Name }) {
			t.Errorf("node %s is listed twice", n.Name)
		}
	}
	got, causes := text(*answer), 0
	for i, f := range answer.Findings {
		switch {
		case f.Level != Cause:
		case i != causes || i >= len(row.causes) || !strings.Contains(f.What, row.causes[i]):
			t.Errorf("cause %d is not among %q, in this order:\n%s", i, row.causes, got)
			causes++
		default:
			causes++
		}
	}
	switch {
	case causes < len(row.causes):
		t.Errorf("causes are missing, of %q:\n%s", row.causes, got)
	case causes > 0 && !strings.Contains(answer.Findings[0].Do+"\n", row.do), !strings.Contains(got, row.also):
		t.Errorf("want to do %q, and %q:\n%s", row.do, row.also, got)
	case row.not != "" && strings.Contains(got, row.not):
		t.Errorf("has %q:\n%s", row.not, got)
	case row.scheduler != "" && strings.Count(got, row.scheduler) != 1:
		t.Errorf("the scheduler's words are not there once:\n%s", got)
	case row.event != "" && (len(answer.Events) == 0 || strings.Count(got, row.event) > 1):
		t.Errorf("the event is not there once:\n%s", got)
	}
	for reason, n := range counted(row.scheduler) {
		if has := judgedAs(answer.Nodes)[reason]; has != n && len(answer.Nodes) > 0 {
			t.Errorf("the scheduler counts %d nodes as %q, and the table has %d: %+v", n, reason, has, answer.Nodes)
		}
	}
}

var reasonOfNodes = regexp.MustCompile(`(\d+) (node\(s\) [^,.{]*[^,.{ ]|Insufficient \w+)( \{node\.kubernetes)?`)

// counted returns how many nodes the scheduler counts for each reason that explain knows.
func counted(message string) map[string]int {
	known := map[string]string{"node(s) did not have enough free storage": "storage", "node(s) didn't find available persistent volumes to bind": "storage",
		"node(s) were unschedulable": "condition", "node(s) had untolerated taint": "excluded", "node(s) had untolerated taint(s)": "excluded",
		"node(s) didn't match Pod's node affinity/selector": "excluded"}
	all := map[string]int{}
	message, _, _ = strings.Cut(message, ". preemption")
	for _, m := range reasonOfNodes.FindAllStringSubmatch(message, -1) {
		n, _ := strconv.Atoi(m[1])
		reason := known[m[2]]
		if m[3] != "" {
			reason = "condition"
		}
		if all[reason] += n; reason == "" {
			all["fits"] += n
		}
	}
	delete(all, "")
	return all
}

// judgedAs counts the nodes of an answer in the order in which the scheduler filters.
func judgedAs(nodes []Node) map[string]int {
	all := map[string]int{}
	for _, n := range nodes {
		switch {
		case n.Excluded != "":
			all["excluded"]++
		case len(n.Lacks) == 0:
			all["fits"]++
		case strings.Contains(n.Text(), "cordoned") || strings.Contains(n.Text(), "not ready") || strings.Contains(n.Text(), "Pressure"):
			all["condition"]++
		default:
			all["storage"]++
		}
	}
	return all
}
