package migrate

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kubevirt.io/hostpath-provisioner/controller/class"
)

// usersOnce answers which pod of this node uses a claim from one list of pods,
// made when it is first asked. With --migrate-used nobody is asked.
func (m *Migrator) usersOnce(ctx context.Context) func(*corev1.PersistentVolumeClaim) (string, error) {
	if m.used {
		return func(*corev1.PersistentVolumeClaim) (string, error) { return "", nil }
	}
	list := sync.OnceValues(func() (map[string]string, error) {
		pods, err := m.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", m.name).String(),
		})
		if err != nil {
			return nil, asked("list the pods of node "+m.name, err)
		}
		return class.ClaimUsers(pods.Items), nil
	})
	return func(c *corev1.PersistentVolumeClaim) (string, error) {
		all, err := list()
		return all[c.Namespace+"/"+c.Name], err
	}
}

// elsewhere answers which pod of another node uses a claim. Each namespace is
// listed once.
func (m *Migrator) elsewhere(ctx context.Context) func(*corev1.PersistentVolumeClaim) (string, error) {
	listed := map[string][]corev1.Pod{}
	return func(c *corev1.PersistentVolumeClaim) (string, error) {
		pods, ok := listed[c.Namespace]
		if !ok {
			list, err := m.client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{
				FieldSelector: fields.OneTermNotEqualSelector("spec.nodeName", m.name).String(),
			})
			if err != nil {
				return "", asked("list the pods of namespace "+c.Namespace, err)
			}
			pods = list.Items
			listed[c.Namespace] = pods
		}
		for _, pod := range pods {
			if pod.Spec.NodeName != "" && class.ClaimUsers([]corev1.Pod{pod})[c.Namespace+"/"+c.Name] != "" {
				return fmt.Sprintf("pod %s/%s on node %s", pod.Namespace, pod.Name, pod.Spec.NodeName), nil
			}
		}
		return "", nil
	}
}
