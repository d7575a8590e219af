package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
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
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "hostpath-provisioner/" + o.nodeName
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

func newRecorder(client kubernetes.Interface, node string) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "hostpath-provisioner", Host: node}), b.Shutdown
}

// nodeReference is what events about a node refer to; like the kubelet's, by
// its name instead of its UID.
func nodeReference(node string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

// silent writes no events: a plain driver does not talk to the API server. What
// would be an event stands in the log too.
type silent struct{}

func (silent) Event(runtime.Object, string, string, string)          {}
func (silent) Eventf(runtime.Object, string, string, string, ...any) {}
func (silent) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
