package agent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// newClient finds the API server and asks it nothing yet.
func newClient(o *options) (kubernetes.Interface, error) {
	where := rest.InClusterConfig
	if o.kubeconfig != "" {
		where = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", o.kubeconfig) }
	}
	config, err := where()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; in a pod mount the service account, elsewhere set --kubeconfig", err)
	}
	config.QPS, config.Burst = o.qps, int(5*o.qps)
	config.UserAgent = "hostpath-provisioner/" + o.nodeName
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
