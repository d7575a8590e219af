package install

import (
	"bytes"
	"cmp"
	_ "embed" // agent.yaml
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/former"
	"kubevirt.io/hostpath-provisioner/controller/operator/layout"
	"kubevirt.io/hostpath-provisioner/controller/operator/metricsauth"
)

//go:embed agent.yaml
var agentYAML []byte

// agentObjects returns the objects of agent.yaml, read once. The caller must not change them.
var agentObjects = sync.OnceValues(func() (all []*unstructured.Unstructured, err error) {
	for document := range bytes.SplitSeq(agentYAML, []byte("\n---\n")) {
		o, err := apply.Parse(document)
		if err != nil {
			return nil, fmt.Errorf("read agent.yaml: %w", err)
		}
		all = append(all, o)
	}
	return all, nil
})

// objects returns the objects of agent.yaml, in the order in which they are applied, in the
// operator's namespace and with the resource as their owner.
func (s Settings) objects(cr *v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
	read, err := agentObjects()
	all := make([]*unstructured.Unstructured, len(read))
	for i, o := range read {
		all[i] = o.DeepCopy()
		s.Own(all[i], cr)
	}
	return all, err
}

// desired returns the objects that the resource asks for, in the order in which they are applied.
// Without a pool to offer there is no DaemonSet.
func (s Settings) desired(cr *v1beta1.HostPathProvisioner, l plan) (wanted []*unstructured.Unstructured, err error) {
	all, err := s.objects(cr)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if isWebhook(o) {
			continue
		}
		if o.GetKind() == "DaemonSet" {
			if len(l.Pools) == 0 {
				continue
			}
			if err := s.daemonSet(o, cr, l); err != nil {
				return nil, fmt.Errorf("read agent.yaml: %w", err)
			}
		}
		if o.GetKind() == "ClusterRole" && l.Migrates() {
			if err := layout.PermitMigration(o); err != nil {
				return nil, fmt.Errorf("read agent.yaml: %w", err)
			}
		}
		if o.GetKind() == "ClusterRole" && l.tokens {
			if err := metricsauth.Permit(o); err != nil {
				return nil, fmt.Errorf("read agent.yaml: %w", err)
			}
		}
		wanted = append(wanted, o)
	}
	return wanted, nil
}

func (s Settings) webhook(cr *v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
	all, err := s.objects(cr)
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return !isWebhook(o) })
	if err == nil && len(all) != 2 {
		err = fmt.Errorf("agent.yaml has %d objects of the webhook", len(all))
	}
	return all, err
}

func isWebhook(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Service" || o.GetKind() == "ValidatingWebhookConfiguration"
}

// daemonSet changes the agents' DaemonSet for the resource.
func (s Settings) daemonSet(o *unstructured.Unstructured, cr *v1beta1.HostPathProvisioner, l plan) error {
	var ds appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &ds); err != nil {
		return err
	}
	pod := &ds.Spec.Template.Spec
	agent := &pod.Containers[0]
	agent.Image = s.Image
	agent.ImagePullPolicy = cmp.Or(cr.Spec.ImagePullPolicy, corev1.PullIfNotPresent)
	agent.Args = append(agent.Args, "--v="+strconv.Itoa(s.Verbosity))
	if l.tlsVersion != "" {
		agent.Args = append(agent.Args, "--metrics-tls-version="+l.tlsVersion)
	}
	pod.NodeSelector = onLinux(cr.Spec.Workload.NodeSelector)
	pod.Affinity = cr.Spec.Workload.Affinity
	pod.Tolerations = cr.Spec.Workload.Tolerations
	pod.ImagePullSecrets = l.pullSecrets
	if metricsauth.Asked(cr) {
		metricsauth.Require(agent)
	}
	if err := l.Configure(pod); err != nil {
		return err
	}
	if err := former.LeaveOut(l.without, &ds); err != nil {
		return err
	}
	applied, err := apply.ToApply(&ds)
	if err != nil {
		return err
	}
	o.Object = applied.Object
	return nil
}

// onLinux returns the node selector with the agent's operating system, unless it has one.
func onLinux(selector map[string]string) map[string]string {
	all := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(all, selector)
	return all
}
