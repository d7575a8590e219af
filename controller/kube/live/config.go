package live

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// APIServer returns where the API server is: by a kubeconfig, or, if that is "", by the service account of
// the pod. The error says what to set.
func APIServer(kubeconfig string) (*rest.Config, error) {
	where := rest.InClusterConfig // which clientcmd would try, too, with a warning in the log
	if kubeconfig != "" {
		where = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := where()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; in a pod mount the service account, elsewhere set --kubeconfig", err)
	}
	return config, nil
}
