package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HostPathProvisioner is the Schema for the hostpathprovisioners API
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=hpp,categories=storage
// +kubebuilder:metadata:annotations="argocd.argoproj.io/sync-options=Prune=false,Delete=false"
// +kubebuilder:metadata:annotations="kustomize.toolkit.fluxcd.io/prune=disabled"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.status.storagePoolStatuses[*].name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.observedVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostPathProvisioner struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HostPathProvisionerSpec   `json:"spec,omitempty"`
	Status HostPathProvisionerStatus `json:"status,omitempty"`
}

// HostPathProvisionerList contains a list of HostPathProvisioner
// +kubebuilder:object:root=true
type HostPathProvisionerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostPathProvisioner `json:"items"`
}

// HostPathProvisionerSpec defines the desired state of HostPathProvisioner
// +kubebuilder:validation:XValidation:rule="has(self.pathConfig) != (has(self.storagePools) && size(self.storagePools) > 0)",message="set exactly one of pathConfig and storagePools"
// +kubebuilder:validation:XValidation:rule="!has(self.templateNodes) || self.templateNodes.all(t, has(self.pathConfig) ? t.pool == 'legacy' : has(self.storagePools) && self.storagePools.exists(p, p.name == t.pool))",message="the pool of a template node must be one of storagePools, or legacy with pathConfig: change or remove the template node"
type HostPathProvisionerSpec struct {
	// ImagePullPolicy is that of every container; IfNotPresent unless set
	// +kubebuilder:validation:Enum="";Always;IfNotPresent;Never
	// +kubebuilder:default=IfNotPresent
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// PathConfig describes one directory for both hostPath and CSI volumes. Deprecated: use storagePools
	// +optional
	PathConfig *PathConfig `json:"pathConfig,omitempty"`
	// Workload restricts on which nodes the agents run
	// +optional
	Workload NodePlacement `json:"workload,omitempty"`
	// FeatureGates are the names of optional features. Snapshotting is known
	// +listType=set
	// +optional
	FeatureGates []string `json:"featureGates,omitempty"`
	// MetricsAuth is which clients may read the metrics of the agents and of the operator. With token, only those whose
	// token may get the URL /metrics; with none, which is the default, every client that reaches the port
	// +kubebuilder:validation:Enum="";none;token
	// +optional
	MetricsAuth string `json:"metricsAuth,omitempty"`
	// StoragePools are the directories of CSI volumes on every node
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.path == p.path))",message="every storage pool needs a path of its own"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !self.exists(q, q.path.startsWith(p.path + '/')))",message="the path of a storage pool must not lie in another pool"
	// +optional
	StoragePools []StoragePool `json:"storagePools,omitempty"`
	// TemplateNodes are the sizes of the nodes that an autoscaler may add. For each, and each storage class of its pool,
	// the operator publishes the capacity that the cluster-autoscaler counts with when it simulates such a node
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="self.all(t, has(t.nodeSelector) && size(t.nodeSelector) > 0 || self.exists_one(o, o.pool == t.pool))",message="of several template nodes of one pool each needs a nodeSelector: one without stands for every node that is added"
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(o, o.pool == t.pool && (has(o.nodeSelector) ? o.nodeSelector : {}) == (has(t.nodeSelector) ? t.nodeSelector : {})))",message="template nodes of one pool need different nodeSelectors: the scheduler would use the largest capacity for all of them"
	// +optional
	TemplateNodes []TemplateNode `json:"templateNodes,omitempty"`
}

// PathConfig describes one directory for both hostPath and CSI volumes
type PathConfig struct {
	// Path is the directory on every node. hostPath volumes lie in it, CSI volumes in its subdirectory csi
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.matches('//|/[.][.]?(/|$)|./$')",message="the path must be absolute, without '//', '.', '..' and a '/' at its end"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/((home|tmp|var|var/lib|var/log|var/tmp)?|(bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|root|run|sbin|sys|usr|var/lib/kubelet)(/.*)?)$')",message="the path must not be a directory of the operating system: name a directory of its own, such as /var/hpvolumes"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/(csi|hostpath-provisioner|hostpath-operator)(/.*)?$')",message="the path must not be one that the agent's container has itself: name another directory, such as /var/hpvolumes"
	Path string `json:"path"`
	// UseNamingPrefix puts the claim's name in front of the names of directories
	// +optional
	UseNamingPrefix bool `json:"useNamingPrefix,omitempty"`
}

// NodePlacement is where the agents run
type NodePlacement struct {
	// NodeSelector are labels that a node must have
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Affinity restricts the nodes further
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Tolerations are for nodes with taints
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// StoragePool is a directory of CSI volumes on every node
// +kubebuilder:validation:XValidation:rule="!has(self.mount) || !self.mount || !has(self.pvcTemplate)",message="mount is for a disk that you mount; the operator mounts that of a pool with a pvcTemplate: remove mount"
// +kubebuilder:validation:XValidation:rule="!has(self.mount) || !self.mount || self.path.matches('^/[^/]+/.')",message="the path of a pool with mount must not lie in the root directory, because the agents get the directory above it: name a directory such as /mnt/disk"
type StoragePool struct {
	// Name is what storage classes name in their parameter storagePool
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a storage pool must consist of lower case letters, digits and '-', and begin and end with a letter or digit"
	Name string `json:"name"`
	// Path is a directory on every node. The volumes lie in its subdirectory csi
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.matches('//|/[.][.]?(/|$)|./$')",message="the path must be absolute, without '//', '.', '..' and a '/' at its end"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/((home|tmp|var|var/lib|var/log|var/tmp)?|(bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|root|run|sbin|sys|usr|var/lib/kubelet)(/.*)?)$')",message="the path must not be a directory of the operating system: name a directory of its own, such as /var/hpvolumes"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/(csi|hostpath-provisioner|hostpath-operator)(/.*)?$')",message="the path must not be one that the agent's container has itself: name another directory, such as /var/hpvolumes"
	Path string `json:"path"`
	// NodeSelector are labels of the nodes that have the pool; every node unless set. A pool that is on another node, or has
	// volumes there, is served there and gets no new volumes
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`
	// Mount requires the path to be a mount point of the node: nothing is made there before its disk is mounted
	// +optional
	Mount bool `json:"mount,omitempty"`
	// ScaleDown lets the cluster-autoscaler remove a node that has a disk of the pool's claims, and with it the volumes
	// there. Otherwise the pod that holds the disk keeps the node
	// +optional
	ScaleDown bool `json:"scaleDown,omitempty"`
	// PVCTemplate describes a claim for each node, on whose volume the pool lies
	// +optional
	PVCTemplate *corev1.PersistentVolumeClaimSpec `json:"pvcTemplate,omitempty"`
	// SnapshotProvider is how snapshots are made
	// +kubebuilder:validation:Enum="";reflink
	// +optional
	SnapshotProvider string `json:"snapshotProvider,omitempty"`
	// OverlayClassName is the storage class of a pool that the nodes share
	// +optional
	OverlayClassName string `json:"overlayClassName,omitempty"`
}

// TemplateNode is the space that a pool has on a node before it has volumes, for the nodes of one group
type TemplateNode struct {
	// Name of the template node, unique in the resource
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a template node must consist of lower case letters, digits and '-', and begin and end with a letter or digit"
	Name string `json:"name"`
	// NodeSelector are labels that the nodes of the group have and those of other groups do not. Without it, the capacity
	// is that of every node that is added
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="!('topology.hostpath.csi/node' in self) && !('kubernetes.io/hostname' in self)",message="the nodeSelector of a template node must not name a node: use a label that all nodes of the group have, such as node.kubernetes.io/instance-type"
	// +optional
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`
	// Pool is the name of the storage pool, legacy with pathConfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	Pool string `json:"pool"`
	// Capacity is what a node of the group has available in the pool when it is new
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : !self.startsWith('-') && !self.startsWith('0')",message="the capacity of a template node must be more than 0, and begin with another digit than 0: 512Gi, not 0.5Ti"
	Capacity resource.Quantity `json:"capacity"`
}

// LabelValue is the value of a label
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string
