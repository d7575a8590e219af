package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HostPathProvisionerStatus defines the observed state of HostPathProvisioner
type HostPathProvisionerStatus struct {
	// Conditions contains the current conditions observed by the operator
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the resource that the status describes
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// OperatorVersion The version of the HostPathProvisioner Operator
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// TargetVersion The targeted version of the HostPathProvisioner deployment
	// +optional
	TargetVersion string `json:"targetVersion,omitempty"`
	// ObservedVersion The observed version of the HostPathProvisioner deployment
	// +optional
	ObservedVersion string `json:"observedVersion,omitempty"`
	// StoragePoolStatuses are the states of the pools, in the order of their names
	// +listType=atomic
	// +optional
	StoragePoolStatuses []StoragePoolStatus `json:"storagePoolStatuses,omitempty"`
}

// Condition is one aspect of the installation's state
type Condition struct {
	// Type is Available, Progressing, Degraded, Ready, Reconciling or Stalled
	Type ConditionType `json:"type"`
	// Status is True, False or Unknown
	Status corev1.ConditionStatus `json:"status"`
	// Reason is one word for the status
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message has the details
	// +optional
	Message string `json:"message,omitempty"`
	// LastHeartbeatTime is when the condition was last written
	// +optional
	LastHeartbeatTime metav1.Time `json:"lastHeartbeatTime,omitempty"`
	// LastTransitionTime is when the status changed
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	// ObservedGeneration is the generation of the resource that the condition describes
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ConditionType is the aspect that a Condition describes
type ConditionType string

// The types of conditions.
const (
	// Available is True while claims are served.
	Available ConditionType = "Available"
	// Progressing is True while agents are installed, changed or removed.
	Progressing ConditionType = "Progressing"
	// Degraded is True while a user has to do something.
	Degraded ConditionType = "Degraded"

	// ReadyCondition is True while every agent offers all that the resource asks for. Clients wait for it.
	ReadyCondition ConditionType = "Ready"
	// Reconciling is True while the resource becomes ready without a user.
	Reconciling ConditionType = "Reconciling"
	// Stalled is True while the resource does not become ready unless a user changes something.
	Stalled ConditionType = "Stalled"
)

// StoragePoolStatus is the state of one pool
type StoragePoolStatus struct {
	// Name of the pool, legacy for the CSI volumes of pathConfig
	Name string `json:"name"`
	// Phase is Preparing, Mounting or Ready
	Phase StoragePoolPhase `json:"phase"`
	// DesiredReady is the number of nodes that are to have the pool
	// +optional
	DesiredReady int `json:"desiredReady,omitempty"`
	// CurrentReady is the number of nodes that are known to offer the pool
	// +optional
	CurrentReady int `json:"currentReady,omitempty"`
	// ClaimStatuses are the states of the claims of pvcTemplate
	// +listType=atomic
	// +optional
	ClaimStatuses []ClaimStatus `json:"claimStatuses,omitempty"`
}

// StoragePoolPhase is how far a pool is
// +kubebuilder:validation:Enum=Preparing;Mounting;Ready
type StoragePoolPhase string

// The phases of a pool.
const (
	// Preparing is the phase of a pool that a node does not offer yet.
	Preparing StoragePoolPhase = "Preparing"
	// Mounting is the phase of a pool whose claims are bound and whose volumes are not mounted on all nodes.
	Mounting StoragePoolPhase = "Mounting"
	// Ready is the phase of a pool that all nodes offer.
	Ready StoragePoolPhase = "Ready"
)

// ClaimStatus is the state of a claim of pvcTemplate
type ClaimStatus struct {
	// Name of the claim
	Name string `json:"name"`
	// Status of the claim
	// +optional
	Status corev1.PersistentVolumeClaimStatus `json:"status,omitempty"`
}
