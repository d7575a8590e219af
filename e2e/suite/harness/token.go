package harness

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// AgentPod creates a pod of the account on the node, as a DaemonSet does. It never runs.
func (s *Scene) AgentPod(node Node, account string) *corev1.Pod {
	s.Helper()
	name := "agent-"
	switch account { // as the DaemonSets of the manifests name their pods
	case Account:
		name = "hostpath-provisioner-"
	case CSIAccount:
		name = "hostpath-provisioner-csi-"
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name, Namespace: Namespace},
		Spec: corev1.PodSpec{
			NodeName: node.Name, ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "agent", Image: "localhost/hpp-e2e/pause:latest"}},
		},
	}
	made, err := s.Client.CoreV1().Pods(Namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	s.must("create the agent's pod", err)
	return made
}

// PodKubeconfig returns a kubeconfig with the token that a kubelet gives to the pod, which names
// the pod's node.
func (s *Scene) PodKubeconfig(pod *corev1.Pod) string {
	s.Helper()
	kubeconfig, err := s.Plane.PodKubeconfig(s.Context(), pod)
	s.must("token of pod "+pod.Name, err)
	return kubeconfig
}

// As returns a client with the permissions of the kubeconfig.
func (s *Scene) As(kubeconfig string) kubernetes.Interface {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	s.must("read kubeconfig", err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	s.must("make client", err)
	return client
}
