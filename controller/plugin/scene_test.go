package plugin_test

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

const gib = 1 << 30

// ages are printed without minutes and seconds from two days on.
func ago(days int) metav1.Time {
	return metav1.NewTime(time.Now().Add(-time.Duration(days)*24*time.Hour - time.Minute))
}

// scene is a cluster: node-01 and node-02 are well, no kubelet answers on node-03, and node-04 has
// no agent.
func scene() plugintest.Cluster {
	c := plugintest.Cluster{Exec: answerOf}
	for i, name := range []string{"node-01", "node-02", "node-03", "node-04"} {
		c.Objects = append(c.Objects, nodeObject(name, i != 2))
		if name != "node-04" {
			c.Objects = append(c.Objects, agentPod("agent", name, i != 2, "agent"))
		}
		if name == "node-01" || name == "node-03" {
			c.Objects = append(c.Objects, agentPod("disks", name, i != 2, "disks"))
		}
	}
	windows := nodeObject("windows-01", true)
	windows.Labels[corev1.LabelOSStable] = "windows"
	c.Objects = append(c.Objects, windows,
		csiPV("pvc-1", "node-01", "shop", "data"), csiPV("pvc-2", "node-02", "shop", "logs"), csiPV("pvc-3", "node-03", "shop", "cold"),
		csiPV("pvc-5", "node-05", "vms", "lost"), migratedPV("pvc-6", "node-01", "vms", "disk-1"),
		hostPathPV("pvc-7", "node-02", "vms", "disk-2"), hostPathPV("pvc-8", "node-03", "vms", "disk-3"),
		diskPV("local-node-01-sdb", "node-01", "/dev/sdb"), diskPV("local-node-03-sdb", "node-03", "/dev/sdb"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}, Spec: corev1.PodSpec{NodeName: "node-01",
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: "data"}}}}}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e1"}, Reason: "PoolNotReady", Type: "Warning",
			Message: "pool local in /var/hpvolumes: its disk does not answer", LastTimestamp: ago(3),
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-03", UID: "node-03"}},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e2"}, Reason: "NodeNotReady", Type: "Normal",
			Message: "of another project", LastTimestamp: ago(3), InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "node-03"}})
	return c
}

func nodeObject(name string, ready bool) *corev1.Node {
	status := corev1.ConditionTrue
	if !ready {
		status = corev1.ConditionUnknown
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	switch name {
	case "node-03":
		n.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}}
	case "node-04":
		n.Annotations = map[string]string{"local-pv-provisioner.cybozu.io/pv-spec-configmap": "disks"}
	}
	return n
}

func agentPod(kind, node string, ready bool, args ...string) *corev1.Pod {
	app := map[string]string{"agent": "hostpath-provisioner-csi", "disks": "hostpath-provisioner-disks"}[kind]
	status := corev1.ConditionTrue
	if !ready {
		status = corev1.ConditionFalse
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: kind + "-" + node, Labels: map[string]string{"k8s-app": app}, Annotations: map[string]string{contract.AnnAgent: "true"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: app, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "hostpath-provisioner", Image: "hpp:v1", Args: args,
			Env: []corev1.EnvVar{{Name: "PROVISION", Value: "hostpath,csi"}}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func pvObject(name, node, namespace, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{contract.AnnProvisionOnNode: node}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: "local", Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim, UID: types.UID(claim)}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func onlyOn(label, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}}
}

func csiPV(name, node, namespace, claim string) *corev1.PersistentVolume {
	pv := pvObject(name, node, namespace, claim)
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeAttributes: map[string]string{contract.StoragePool: "fast"}}
	pv.Spec.NodeAffinity = onlyOn(contract.TopologyNode, node)
	return pv
}

func migratedPV(name, node, namespace, claim string) *corev1.PersistentVolume {
	pv := csiPV(name, node, namespace, claim)
	pv.Annotations[contract.AnnReplaces] = "the one before"
	return pv
}

func hostPathPV(name, node, namespace, claim string) *corev1.PersistentVolume {
	pv := pvObject(name, node, namespace, claim)
	pv.Annotations[contract.AnnProvisionedBy] = contract.HostPathProvisioner
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/var/hpvolumes/" + name}
	pv.Spec.NodeAffinity = onlyOn(corev1.LabelHostname, node)
	return pv
}

func diskPV(name, node, device string) *corev1.PersistentVolume {
	pv := pvObject(name, node, "vms", "raw-"+node)
	pv.Labels = map[string]string{"local-pv-provisioner.cybozu.io/node": node}
	pv.Spec.StorageClassName, pv.Annotations = "raw", nil
	pv.Spec.Local = &corev1.LocalVolumeSource{Path: device}
	pv.Spec.NodeAffinity = onlyOn(corev1.LabelHostname, node)
	return pv
}

// answerOf is how the agents of the scene answer.
func answerOf(pod string, command []string) plugintest.Answer {
	switch {
	case strings.HasSuffix(pod, "-node-03"):
		return plugintest.Answer{Unreachable: "error dialing backend: dial tcp 192.0.2.3:10250: connect: no route to host"}
	case pod == "agent-node-01" && command[1] == "inspect":
		return printed(fast(), slow())
	case pod == "agent-node-02" && command[1] == "inspect":
		return printed(local())
	case pod == "agent-node-02" && command[1] == "orphans":
		return printed([]agents.Orphan{{Pool: "/var/hpvolumes", PoolUUID: "uuid-3", Name: "pvc-old", Bytes: 2 * gib, PV: "pvc-old", Claim: "shop/old",
			ReclaimPolicy: "Retain", Since: ago(4).Time, Why: "its PV is gone", Kept: "its PV had the policy Retain"}})
	case command[1] == "orphans":
		return plugintest.Answer{Err: "hostpath-provisioner: orphans: the agent does not serve it", Code: 1}
	case pod == "disks-node-01":
		return printed([]agents.Device{
			{Device: "/dev/sdb", ID: "wwn-0x1", Bytes: 100 * gib, State: "bound", PV: "local-node-01-sdb"},
			{Device: "/dev/sdc", ID: "wwn-0x2", Bytes: 100 * gib, State: "wiping", WipeBytes: 100 * gib, Wiped: 100 * gib, Verified: 50 * gib},
			{Device: "/dev/sdd", ID: "wwn-0x3", Bytes: 50 * gib, State: "refused", Why: "it carries an ext4 filesystem"}})
	}
	return plugintest.Answer{Err: "unexpected command " + strings.Join(command, " "), Code: 2}
}

// printed is an answer of JSON documents.
func printed(values ...any) plugintest.Answer {
	out := ""
	for _, v := range values {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			panic(err) // of a value of this file
		}
		out += string(data) + "\n"
	}
	return plugintest.Answer{Out: out}
}

func volumeOf(name, namespace, claim string, used, quota int64) inspect.Volume {
	return inspect.Volume{Name: name, PV: name, State: record.Bound, Bytes: 10 * gib, Used: used, Quota: quota, ReclaimPolicy: "Delete",
		Owner: record.Owner{Namespace: namespace, Name: claim, UID: claim}, Created: ago(20).Time}
}

func fast() inspect.Report {
	v := volumeOf("pvc-6", "vms", "disk-1", gib, 10*gib)
	v.Migration = &inspect.Migration{Step: record.MigrationDone, To: "csi", Changed: ago(9).Time}
	return inspect.Report{Version: 1, Pool: inspect.Pool{Name: "fast", Path: "/fast", ID: "uuid-1", Held: true, Quotas: "project", Reserve: gib},
		Space:   space.Space{Total: 100 * gib, Free: 60 * gib, Allocated: 20 * gib, Available: 39 * gib},
		Volumes: []inspect.Volume{volumeOf("pvc-1", "shop", "data", 9*gib+gib/2, 10*gib), v},
		Trash:   []inspect.TrashEntry{{ID: "0123", Name: "pvc-gone", Bytes: 5 * gib, Since: ago(2).Time, Stuck: "remove pvc-gone: operation not permitted"}, {ID: "4567", Since: ago(2).Time}}}
}

func slow() inspect.Report {
	return inspect.Report{Version: 1, Pool: inspect.Pool{Name: "slow", Path: "/slow", ID: "uuid-2", Held: true, Quotas: "project"},
		Space: space.Space{Total: 1000 * gib, Free: 990 * gib, Available: 990 * gib}}
}

func local() inspect.Report {
	orphan := volumeOf("pvc-old", "shop", "old", 0, 0)
	orphan.Orphan = record.Orphan{Why: "its PV is gone", Since: ago(4).Time}
	stopped := volumeOf("pvc-7", "vms", "disk-2", 0, 0)
	stopped.Migration = &inspect.Migration{Step: record.MigrationPrepared, To: "csi", Stopped: "the PV has finalizers of other controllers", Changed: ago(6).Time}
	missing := volumeOf("pvc-2", "shop", "logs", 0, 0)
	missing.Missing = true
	return inspect.Report{Version: 1, Pool: inspect.Pool{Name: "local", Path: "/var/hpvolumes", ID: "uuid-3", Held: true, NoQuotas: "ext4 is mounted without prjquota"},
		Space:      space.Space{Total: 50 * gib, Free: 5 * gib, Allocated: 30 * gib, Available: 4 * gib},
		Volumes:    []inspect.Volume{missing, stopped, orphan},
		Unrecorded: []inspect.Unrecorded{{Name: "backup\x1b[2J"}}}
}

// without returns the objects of a cluster but for those of a kind.
func without[T runtime.Object](c plugintest.Cluster) plugintest.Cluster {
	var kept []runtime.Object
	for _, o := range c.Objects {
		if _, is := o.(T); !is {
			kept = append(kept, o)
		}
	}
	c.Objects = kept
	return c
}
