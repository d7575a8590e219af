package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// operatorContainer is the name of the container whose image the agents run.
const operatorContainer = "hostpath-provisioner-operator"

// WithImage returns the settings with the image of the operator's own pod, if the environment named none: an image
// that a kustomization sets reaches the containers, and no variable. It reads the pod and not the Deployment, which
// may have the next version's image already. The error names the pod.
func (s Settings) WithImage(ctx context.Context, config *rest.Config) (Settings, error) {
	if s.Image != "" {
		return s, nil
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return s, err
	}
	pod, err := api.CoreV1().Pods(s.Namespace).Get(ctx, s.Pod, metav1.GetOptions{})
	if err != nil {
		return s, fmt.Errorf("read the image of the agents, which is that of this pod, %s/%s: %w", s.Namespace, s.Pod, err)
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == operatorContainer && c.Image != "" {
			s.Image = c.Image
			return s, nil
		}
	}
	return s, fmt.Errorf("pod %s/%s has no container %s: set OPERATOR_IMAGE to the image of this container, which has the "+
		"agent too", s.Namespace, s.Pod, operatorContainer)
}
