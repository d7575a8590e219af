package cluster

import (
	"context"
	"fmt"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CreateNode creates a node without a kubelet. It is ready and has room, so that pods are scheduled
// to it, but they never run. Its label kubernetes.io/hostname is hostname, or the name if that is
// empty; the other labels are added. It returns an error if the node exists. The control plane must
// have been started without Kubelets; otherwise the node is soon declared lost. Pods on it end only
// if they are deleted with a grace period of zero.
func (c *ControlPlane) CreateNode(ctx context.Context, name, hostname string,
	labels map[string]string) (*corev1.Node, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, handmadeNode(name, hostname, labels), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create node %q: %w", name, err)
	}
	// Admission gives every new node a taint that only a controller would remove.
	node, err := nodes.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("untaint node %q: %w", name, err)
	}
	return node, nil
}

func handmadeNode(name, hostname string, labels map[string]string) *corev1.Node {
	if hostname == "" {
		hostname = name
	}
	all := map[string]string{corev1.LabelHostname: hostname, corev1.LabelOSStable: "linux"}
	maps.Copy(all, labels)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
		corev1.ResourcePods:             resource.MustParse("10000"),
	}
	now := metav1.Now()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Handmade",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
}

// ServiceAccountKubeconfig writes a kubeconfig with the permissions of a service account, valid for
// a day, and returns its path. It creates the account if there is none; the namespace must exist.
// With it an agent runs as a process of this machine under the RBAC rules that it has in a pod.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	client, err := c.Client()
	if err != nil {
		return "", err
	}
	accounts := client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return "", fmt.Errorf("service account %s/%s: %w", namespace, name, err)
	}
	path := kubeconfigPath(c.settings.Dir, namespace+"-"+name)
	return path, c.writeToken(ctx, path, namespace, name, nil)
}

// PodKubeconfig writes a kubeconfig as ServiceAccountKubeconfig does, with a token that is bound to
// the pod, as a kubelet requests it: the token names the pod's node, and ends with the pod. The pod
// must have a node.
func (c *ControlPlane) PodKubeconfig(ctx context.Context, pod *corev1.Pod) (string, error) {
	path := kubeconfigPath(c.settings.Dir, pod.Namespace+"-pod-"+pod.Name)
	return path, c.writeToken(ctx, path, pod.Namespace, pod.Spec.ServiceAccountName,
		&authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		})
}

// writeToken writes a kubeconfig with a token of the account, valid for a day.
func (c *ControlPlane) writeToken(ctx context.Context, path, namespace, name string,
	bound *authenticationv1.BoundObjectReference) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	day := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day,
		BoundObjectRef: bound}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	return writeKubeconfig(path, c.URL(), servingCertificate(c.settings.Dir), token.Status.Token)
}
