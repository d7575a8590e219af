package plugintest

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// GiB is 2^30 bytes.
const GiB = 1 << 30

// Metrics are those of an agent whose pool has a disk of its own and enforces quotas, and whose
// certificate is renewed in time.
const Metrics = `# TYPE kubevirt_hpp_pool_quota_enforced gauge
kubevirt_hpp_pool_quota_enforced{method="project",pool="local"} 1
# TYPE kubevirt_hpp_pool_path_shared_with_os gauge
kubevirt_hpp_pool_path_shared_with_os{pool="local"} 0
# TYPE kubevirt_hpp_certificate_expiry_timestamp_seconds gauge
kubevirt_hpp_certificate_expiry_timestamp_seconds{use="metrics"} 4.1e+09
`

// Healthy returns a cluster in which there is nothing to find. Its nodes node-01 and node-02 have an
// agent of the CSI driver each, with 50Gi available in the pool "local"; node-01 has raw disks, too. The
// claim shop/data is bound to PV pvc-1 on node-01, and pod db-0 uses it; shop/new is a minute old, has
// node-01 as its selected node, and pod web-0 uses it.
func Healthy() *Cluster {
	c := &Cluster{Minor: "34", Log: "a line\n", Pools: map[string][]inspect.Report{}, Prints: map[string]Answer{}, Metrics: map[string]string{}}
	for _, name := range []string{"node-01", "node-02"} {
		c.AddNode(name)
	}
	c.Pools["node-01"][0].Volumes = []inspect.Volume{VolumeOf("pvc-1", "shop", "data", GiB, 10*GiB)}
	c.Add(DiskPod("node-01"), DiskPV("local-node-01-sdb", "node-01", "/dev/sdb"))
	c.Metrics["disks-node-01"] = "# TYPE kubevirt_hpp_devices gauge\nkubevirt_hpp_devices{node=\"node-01\",state=\"bound\"} 1\n"
	c.Prints["disks-node-01 disks"] = JSON([]map[string]any{{"device": "/dev/sdb", "id": "wwn-0x1", "bytes": 100 * GiB, "state": "bound", "pv": "local-node-01-sdb"}})
	c.AddInstallation(2)
	c.Add(CSIPV("pvc-1", "node-01", "shop", "data"), OthersPV("of-others", "gone"),
		Claim("shop", "data", "pvc-1"), UserOf("db-0", "data", "node-01"), Claim("shop", "new", ""), UserOf("web-0", "new", ""))
	claim := c.Claim("new")
	claim.CreationTimestamp, claim.Annotations = Ago(time.Minute), map[string]string{contract.AnnSelectedNode: "node-01"}
	return c
}

// AddInstallation adds what a cluster of that many nodes has once: the DaemonSets, the operator and its
// resource, the driver and the classes, of which two are of other programs.
func (c *Cluster) AddInstallation(nodes int32) {
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	operator := Pod("hpp", "operator-1", "node-02", corev1.Container{Name: "hostpath-provisioner-operator", Image: "hpp:v1"})
	operator.Labels, operator.OwnerReferences = map[string]string{"name": "hostpath-provisioner-operator"}, nil
	c.Metrics["operator-1"] = "# TYPE kubevirt_hpp_certificate_expiry_timestamp_seconds gauge\n"
	c.Add(operator, daemonSet("agents", nodes, AgentPod("node-01")), daemonSet("disks", 1, DiskPod("node-01")),
		&hpp.HostPathProvisioner{TypeMeta: metav1.TypeMeta{APIVersion: hpp.GroupVersion().String(), Kind: "HostPathProvisioner"},
			ObjectMeta: metav1.ObjectMeta{Name: "hpp"}, Status: hpp.HostPathProvisionerStatus{Conditions: []hpp.Condition{
				{Type: hpp.Available, Status: corev1.ConditionTrue}, {Type: hpp.Degraded, Status: corev1.ConditionFalse}}}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner},
			Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: contract.CSIProvisioner, VolumeBindingMode: &delayed, Parameters: map[string]string{contract.StoragePool: "local"}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "raw"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &delayed},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Provisioner: "ebs.csi.aws.com"},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: contract.LocalPathProvisioner})
}

// AddNode adds a node with its agent and all that the agent and the kubelet publish.
func (c *Cluster) AddNode(name string) {
	c.Add(Node(name), AgentPod(name),
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner}}}},
		&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "local-" + name}, StorageClassName: "local", Capacity: ptr.To(resource.MustParse("50Gi")),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{contract.TopologyNode: name}}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-8 * time.Second)))}})
	c.Pools[name] = []inspect.Report{{Version: 1, Pool: inspect.Pool{Name: "local", Path: "/var/hpvolumes/csi", ID: "uuid-" + name, Held: true, Quotas: "project", Filesystem: "8:1"},
		Space: space.Space{Total: 100 * GiB, Free: 60 * GiB, Allocated: 10 * GiB, Available: 50 * GiB}}}
	c.Metrics["agent-"+name] = Metrics
}

// Ago is a time before now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }

// Days is that many days and a minute: ages are printed without minutes and seconds from two days on.
func Days(n int) time.Duration { return time.Duration(n)*24*time.Hour + time.Minute }

// Node is a node that is ready.
func Node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: Ago(Days(30)), Labels: map[string]string{
		corev1.LabelHostname: name, contract.TopologyNode: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

// Pod is a pod of a DaemonSet that is ready.
func Pod(namespace, name, node string, c corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{
		{Kind: "DaemonSet", Controller: ptr.To(true)}}}, Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "agents", Containers: []corev1.Container{c}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
}

// AgentPod is the pod agent-NODE of an agent of the CSI driver.
func AgentPod(node string) *corev1.Pod {
	p := Pod("hpp", "agent-"+node, node, corev1.Container{Name: "hostpath-provisioner", Image: "hpp:v1", Args: []string{"--endpoint=unix:///csi/csi.sock"},
		Env: []corev1.EnvVar{{Name: "PROVISION", Value: "csi"}}})
	p.Labels, p.Annotations = map[string]string{"k8s-app": "hostpath-provisioner-csi"}, map[string]string{contract.AnnAgent: "true"}
	p.Spec.Volumes = []corev1.Volume{{Name: "pools", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/hpvolumes"}}}}
	return p
}

// DiskPod is the pod disks-NODE of an agent of raw disks.
func DiskPod(node string) *corev1.Pod {
	p := AgentPod(node)
	p.Name, p.UID, p.Labels = "disks-"+node, types.UID("disks-"+node), map[string]string{"k8s-app": "hostpath-provisioner-disks"}
	p.Spec.Containers[0].Args, p.Spec.Containers[0].Env = []string{"disks"}, nil
	return p
}

func daemonSet(name string, nodes int32, pod *corev1.Pod) *appsv1.DaemonSet {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: *pod.Spec.DeepCopy()}
	template.Spec.NodeName = ""
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: name, Labels: pod.Labels}, Spec: appsv1.DaemonSetSpec{Template: template},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: nodes, CurrentNumberScheduled: nodes}}
}

// PV is a PV of 10Gi that is bound to a claim.
func PV(name, node, namespace, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{contract.AnnProvisionOnNode: node}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: "local", Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim, UID: types.UID(claim)}}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
}

func onlyOn(label, value string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}}
}

// CSIPV is a PV of the driver.
func CSIPV(name, node, namespace, claim string) *corev1.PersistentVolume {
	pv := PV(name, node, namespace, claim)
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: name, VolumeAttributes: map[string]string{contract.StoragePool: "local"}}
	pv.Spec.NodeAffinity = onlyOn(contract.TopologyNode, node)
	return pv
}

// HostPathPV is a PV of the hostPath provisioner.
func HostPathPV(name, node, namespace, claim string) *corev1.PersistentVolume {
	pv := PV(name, node, namespace, claim)
	pv.Annotations[contract.AnnProvisionedBy] = contract.HostPathProvisioner
	pv.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/var/hpvolumes/" + name}
	pv.Spec.NodeAffinity = onlyOn(corev1.LabelHostname, node)
	return pv
}

// DiskPV is the PV of a raw disk.
func DiskPV(name, node, device string) *corev1.PersistentVolume {
	pv := PV(name, node, "vms", "raw-"+node)
	pv.Labels = map[string]string{"local-pv-provisioner.cybozu.io/node": node}
	pv.Spec.StorageClassName, pv.Annotations = "raw", nil
	pv.Spec.Local = &corev1.LocalVolumeSource{Path: device}
	pv.Spec.NodeAffinity = onlyOn(corev1.LabelHostname, node)
	return pv
}

// OthersPV is a PV of other storage.
func OthersPV(name, node string) *corev1.PersistentVolume {
	pv := CSIPV(name, node, "shop", "others")
	pv.Annotations, pv.Spec.CSI.Driver, pv.Spec.StorageClassName = nil, "ebs.csi.aws.com", "cloud"
	return pv
}

// Claim is a claim of 1Gi in the class local of five days ago, bound to a PV of 10Gi unless that is "".
func Claim(namespace, name, pv string) *corev1.PersistentVolumeClaim {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: Ago(Days(5)),
		Finalizers: []string{"kubernetes.io/pvc-protection"}}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), VolumeName: pv,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	if pv != "" {
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		claim.Annotations = map[string]string{contract.AnnSelectedNode: "node-01"}
	}
	return claim
}

// UserOf is a pod of the namespace shop that uses a claim. It waits if it has no node.
func UserOf(name, claim, node string) *corev1.Pod {
	p := Pod("shop", name, node, corev1.Container{Name: "app", Image: "app"})
	p.OwnerReferences, p.CreationTimestamp, p.Spec.SchedulerName = nil, Ago(30*time.Second), "default-scheduler"
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	if node == "" {
		p.Status.Conditions = nil
	}
	return p
}

// VolumeOf is a volume of 10Gi that a pool reports.
func VolumeOf(name, namespace, claim string, used, quota int64) inspect.Volume {
	return inspect.Volume{Name: name, PV: name, State: record.Bound, Bytes: 10 * GiB, Used: used, Quota: quota, ReclaimPolicy: "Delete",
		Owner: record.Owner{Namespace: namespace, Name: claim, UID: claim}, Created: Ago(Days(20)).Time}
}
