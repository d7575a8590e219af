// Package v1beta1 holds the resource HostPathProvisioner, which describes an installation of the
// agents. Its group, names and keys are those of the existing operator, so that resources of either
// are resources of both.
//
// The markers are the rules that the API server enforces. One object shows whether they are met;
// older resources that break them can still be changed where they do not. The command below writes
// both generated files from the types:
//
//	go generate ./api/...
//
// +kubebuilder:object:generate=true
// +groupName=hostpathprovisioner.kubevirt.io
package v1beta1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.22.0 object crd paths=. output:crd:dir=../../manifests/operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the resource.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "hostpathprovisioner.kubevirt.io", Version: "v1beta1"}
}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &HostPathProvisioner{}, &HostPathProvisionerList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
