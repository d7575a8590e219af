package scctest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Constraints are OpenShift's SecurityContextConstraints, of security.openshift.io/v1, as far as
// ours go.
type Constraints struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Users                    []string            `json:"users"`
	Groups                   []string            `json:"groups"`
	AllowHostDirVolumePlugin bool                `json:"allowHostDirVolumePlugin"`
	AllowHostIPC             bool                `json:"allowHostIPC"`
	AllowHostNetwork         bool                `json:"allowHostNetwork"`
	AllowHostPID             bool                `json:"allowHostPID"`
	AllowHostPorts           bool                `json:"allowHostPorts"`
	AllowPrivilegedContainer bool                `json:"allowPrivilegedContainer"`
	AllowPrivilegeEscalation *bool               `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool                `json:"readOnlyRootFilesystem"`
	RequiredDropCapabilities []corev1.Capability `json:"requiredDropCapabilities"`
	AllowedCapabilities      []corev1.Capability `json:"allowedCapabilities"`
	DefaultAddCapabilities   []corev1.Capability `json:"defaultAddCapabilities"`
	RunAsUser                Strategy            `json:"runAsUser"`
	SELinuxContext           Strategy            `json:"seLinuxContext"`
	FSGroup                  Strategy            `json:"fsGroup"`
	SupplementalGroups       Strategy            `json:"supplementalGroups"`
	SeccompProfiles          []string            `json:"seccompProfiles"`
	Volumes                  []string            `json:"volumes"`
}

// From returns the constraints that an object has, decoded from YAML or JSON.
func From(object map[string]any) (*Constraints, error) {
	c := &Constraints{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, c); err != nil {
		return nil, fmt.Errorf("read SecurityContextConstraints: %w", err)
	}
	return c, nil
}

// Strategy defines which values of a field are allowed: RunAsAny, or another type by its name.
type Strategy struct {
	Type string `json:"type"`
}

const (
	runAsAny  = "RunAsAny"
	mustRunAs = "MustRunAs"
	nonRoot   = "MustRunAsNonRoot"
)

// NonRootV2 are the constraints nonroot-v2 of every OpenShift cluster:
// bindata/bootkube/scc-manifests of github.com/openshift/cluster-kube-apiserver-operator.
func NonRootV2() *Constraints {
	return &Constraints{
		ObjectMeta:               metav1.ObjectMeta{Name: "nonroot-v2"},
		AllowPrivilegeEscalation: new(bool),
		RequiredDropCapabilities: []corev1.Capability{"ALL"},
		AllowedCapabilities:      []corev1.Capability{"NET_BIND_SERVICE"},
		RunAsUser:                Strategy{nonRoot},
		SELinuxContext:           Strategy{mustRunAs},
		FSGroup:                  Strategy{runAsAny},
		SupplementalGroups:       Strategy{runAsAny},
		SeccompProfiles:          []string{corev1.SeccompProfileRuntimeDefault},
		Volumes: []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
			"persistentVolumeClaim", "projected", "secret"},
	}
}
