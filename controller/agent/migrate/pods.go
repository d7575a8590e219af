package migrate

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// localUsers returns a function that returns a pod of this node that uses a claim. It
// lists the pods once, at the first call. With --migrate-used it always returns "".
func (m *Migrator) localUsers(ctx context.Context) func(*corev1.PersistentVolumeClaim) (string, error) {
	if m.Used {
		return func(*corev1.PersistentVolumeClaim) (string, error) { return "", nil }
	}
	list := sync.OnceValues(func() (map[string]string, error) {
		pods, err := m.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", m.Node).String(),
		})
		if err != nil {
			return nil, readError("list the pods of node "+m.Node, err)
		}
		return contract.ClaimUsers(pods.Items), nil
	})
	return func(c *corev1.PersistentVolumeClaim) (string, error) {
		all, err := list()
		return all[c.Namespace+"/"+c.Name], err
	}
}

// remoteUsers returns a function that returns a pod of another node that uses a claim.
// It lists the pods of each namespace once.
func (m *Migrator) remoteUsers(ctx context.Context) func(*corev1.PersistentVolumeClaim) (string, error) {
	listed := map[string][]corev1.Pod{}
	return func(c *corev1.PersistentVolumeClaim) (string, error) {
		pods, ok := listed[c.Namespace]
		if !ok {
			list, err := m.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", m.Node).String(),
			})
			if err != nil {
				return "", readError("list the pods of namespace "+c.Namespace, err)
			}
			pods = list.Items
			listed[c.Namespace] = pods
		}
		for _, pod := range pods {
			if pod.Spec.NodeName != "" && contract.ClaimUsers([]corev1.Pod{pod})[c.Namespace+"/"+c.Name] != "" {
				return fmt.Sprintf("pod %s/%s on node %s", pod.Namespace, pod.Name, pod.Spec.NodeName), nil
			}
		}
		return "", nil
	}
}
