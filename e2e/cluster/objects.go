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

// CreateNode makes a node without a kubelet: it is ready and roomy, so pods get scheduled to it, and never run. Its
// kubernetes.io/hostname label is hostname, or the name when that is empty; labels are set besides. A node that exists
// is an error. The control plane must have been started without Kubelets, or the node is soon declared lost. Pods on it
// end only when they are deleted with a grace period of zero.
func (c *ControlPlane) CreateNode(ctx context.Context, name, hostname string, labels map[string]string) (*corev1.Node, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, handmadeNode(name, hostname, labels), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create node %q: %w", name, err)
	}
	// Admission gives every new node a taint that only a controller would take away.
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

// ServiceAccountKubeconfig makes a kubeconfig with the permissions of a service account and nothing more, good for a day,
// and returns its path. It creates the account when there is none; the namespace must exist. With it an agent runs as a
// process of this machine under the RBAC rules that it has in a pod.
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

// PodKubeconfig makes a kubeconfig as ServiceAccountKubeconfig does, with a token of the pod's account that is bound to
// the pod, as a kubelet gives it one: it says of which node the pod is, and ends with the pod. The pod has a node.
func (c *ControlPlane) PodKubeconfig(ctx context.Context, pod *corev1.Pod) (string, error) {
	path := kubeconfigPath(c.settings.Dir, pod.Namespace+"-pod-"+pod.Name)
	return path, c.writeToken(ctx, path, pod.Namespace, pod.Spec.ServiceAccountName, &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
	})
}

// writeToken writes a kubeconfig with a token of the account, good for a day.
func (c *ControlPlane) writeToken(ctx context.Context, path, namespace, name string, bound *authenticationv1.BoundObjectReference) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	day := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day, BoundObjectRef: bound}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	return writeKubeconfig(path, c.URL(), servingCertificate(c.settings.Dir), token.Status.Token)
}
