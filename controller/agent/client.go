package agent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NewClient returns a client of the API server, which sends no request yet. It uses the service
// account of the pod if kubeconfig is "", and makes at most qps requests a second.
func NewClient(kubeconfig, node string, qps float32) (kubernetes.Interface, error) {
	where := rest.InClusterConfig
	if kubeconfig != "" {
		where = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := where()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; in a pod mount the service account, elsewhere set --kubeconfig", err)
	}
	config.QPS, config.Burst = qps, int(5*qps)
	config.UserAgent = "hostpath-provisioner/" + node
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
