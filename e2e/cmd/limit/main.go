// Command limit serves claims with the provisioner library without a disk: as fast as a provisioner
// of this kind can be on the control plane. The benchmarks compare the agent with it.
//
// Library and client have the agent's settings. The PVs are as large as the agent's and name
// directories that do not exist.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"
)

// options are the program's flags.
type options struct {
	kubeconfig, node, provisioner string
	workers                       int
	csi                           bool
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the API server; required")
	flag.StringVar(&o.node, "node-name", "", "the Node of all PVs; required")
	flag.StringVar(&o.provisioner, "provisioner", "", "name in the classes to serve; required")
	flag.IntVar(&o.workers, "workers", 8, "claims, and as many PVs, that are handled in parallel")
	flag.BoolVar(&o.csi, "csi", false, "create CSI PVs instead of hostPath PVs")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no throttle
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, o.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	limiter := func() workqueue.TypedRateLimiter[any] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](time.Second, 30*time.Second)
	}
	controller.NewProvisionController(klog.FromContext(ctx), client, o.provisioner,
		&nothing{o, node.Labels[corev1.LabelHostname]},
		controller.LeaderElection(false),
		controller.Threadiness(o.workers),
		controller.RateLimiter(limiter()),
		controller.CreateProvisionedPVLimiter(limiter()),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.AddFinalizer(true),
		controller.NodesLister(oneNode{node: node}),
	).Run(ctx)
	return nil
}

// nothing provisions PVs without directories.
type nothing struct {
	options
	hostname string
}

// Provision returns a PV of the agent's size: labels, annotations, affinity.
func (n *nothing) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume,
	controller.ProvisioningState, error) {
	mode, directory := corev1.PersistentVolumeFilesystem, corev1.HostPathDirectory
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:   o.PVName,
			Labels: map[string]string{"limit.hostpath-provisioner.kubevirt.io/node": n.node},
			Annotations: map[string]string{
				"limit.hostpath-provisioner.kubevirt.io/pool": strings.Repeat("0", 36),
				"kubevirt.io/provisionOnNode":                 n.node, "hostPathProvisionerIdentity": n.provisioner,
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			Capacity:                      o.PVC.Spec.Resources.Requests,
			StorageClassName:              o.StorageClass.Name,
			VolumeMode:                    &mode,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/nothing/" + o.PVName, Type: &directory},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{n.hostname},
				}}}},
			}},
		},
	}
	if n.csi {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: n.provisioner, VolumeHandle: o.PVName, FSType: "xfs",
			VolumeAttributes: map[string]string{"storagePool": "local"},
		}}
	}
	return pv, controller.ProvisioningFinished, nil
}

// Delete does nothing.
func (n *nothing) Delete(context.Context, *corev1.PersistentVolume) error { return nil }
