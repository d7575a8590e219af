package operator

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // agent.yaml
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

//go:embed agent.yaml
var agentYAML []byte

// agentObjects returns the objects of agent.yaml, read once. The caller must not change them.
var agentObjects = sync.OnceValues(func() (all []*unstructured.Unstructured, err error) {
	for document := range bytes.SplitSeq(agentYAML, []byte("\n---\n")) {
		o, err := parse(document)
		if err != nil {
			return nil, fmt.Errorf("read agent.yaml: %w", err)
		}
		all = append(all, o)
	}
	return all, nil
})

// parse reads an object with integers as those that are read from the cluster have them: as floats
// they would always differ.
func parse(document []byte) (*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(text)
}

// objects returns the objects of agent.yaml, in the order in which they are applied, in the
// operator's namespace and with the resource as their owner.
func (s Settings) objects(cr *v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
	read, err := agentObjects()
	all := make([]*unstructured.Unstructured, len(read))
	for i, o := range read {
		all[i] = o.DeepCopy()
		s.own(all[i], cr)
	}
	return all, err
}

// desired returns the objects that the resource asks for, in the order in which they are applied.
// Without a pool to offer there is no DaemonSet.
func (s Settings) desired(cr *v1beta1.HostPathProvisioner, l layout) (wanted []*unstructured.Unstructured, err error) {
	all, err := s.objects(cr)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if isWebhook(o) {
			continue
		}
		if o.GetKind() == "DaemonSet" {
			if len(l.pools) == 0 {
				continue
			}
			if err := s.daemonSet(o, cr, l); err != nil {
				return nil, fmt.Errorf("read agent.yaml: %w", err)
			}
		}
		if o.GetKind() == "ClusterRole" && l.migrates() {
			if err := permitMigration(o); err != nil {
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

// trust sets the authorities of the webhook's certificate in its configuration, unless there are
// none: cert-manager may inject them.
func trust(configuration *unstructured.Unstructured, authorities []byte) error {
	hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || len(authorities) == 0 {
		return err
	}
	for _, hook := range hooks {
		text := base64.StdEncoding.EncodeToString(authorities)
		if err := unstructured.SetNestedField(hook.(map[string]any), text, "clientConfig", "caBundle"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, hooks, "webhooks")
}

// applied is the annotation with a hash of the object as it was applied. It differs when a field is
// no longer wanted, which the object in the cluster does not show.
const applied = "hostpathprovisioner.kubevirt.io/applied"

func seal(o *unstructured.Unstructured) error {
	text, err := json.Marshal(o.Object)
	sum := sha256.Sum256(text)
	o.SetAnnotations(map[string]string{applied: hex.EncodeToString(sum[:8])})
	return err
}

// labels returns those of every object that the operator makes.
func (s Settings) labels() map[string]string {
	labels := map[string]string{"k8s-app": "hostpath-provisioner", managedBy: owner,
		"app.kubernetes.io/component": "storage", "app.kubernetes.io/part-of": s.PartOf}
	if s.Installer != "" {
		labels["app.kubernetes.io/version"] = s.Installer
	}
	return labels
}

// own sets the object's namespace, labels and owner. Objects without a namespace have no owner:
// they are deleted in an order of their own.
func (s Settings) own(o *unstructured.Unstructured, cr *v1beta1.HostPathProvisioner) {
	labels := s.labels()
	for key, value := range o.GetLabels() {
		if _, ours := labels[key]; !ours {
			labels[key] = value
		}
	}
	o.SetLabels(labels)
	if subjects, found, _ := unstructured.NestedSlice(o.Object, "subjects"); found {
		for _, subject := range subjects {
			subject.(map[string]any)["namespace"] = s.Namespace
		}
		o.Object["subjects"] = subjects
	}
	if hooks, found, _ := unstructured.NestedSlice(o.Object, "webhooks"); found {
		for _, hook := range hooks {
			// agent.yaml has it
			_ = unstructured.SetNestedField(hook.(map[string]any), s.Namespace, "clientConfig", "service", "namespace")
		}
		o.Object["webhooks"] = hooks
	}
	if o.GetNamespace() == "" {
		return
	}
	o.SetNamespace(s.Namespace)
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1beta1.GroupVersion().String(), Kind: "HostPathProvisioner", Name: cr.Name, UID: cr.UID,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}})
}

// daemonSet changes the agents' DaemonSet for the resource.
func (s Settings) daemonSet(o *unstructured.Unstructured, cr *v1beta1.HostPathProvisioner, l layout) error {
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
	pod.Affinity = notOn(l.without, cr.Spec.Workload.Affinity)
	pod.Tolerations = cr.Spec.Workload.Tolerations
	if err := l.configure(pod); err != nil {
		return err
	}
	applied, err := toApply(&ds)
	if err != nil {
		return err
	}
	o.Object = applied.Object
	return nil
}

// toApply returns the object as it is applied, without its status.
func toApply(o any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	delete(fields, "status")
	return &unstructured.Unstructured{Object: withoutNil(fields).(map[string]any)}, err
}

// onLinux returns the node selector with the agent's operating system, unless it has one.
func onLinux(selector map[string]string) map[string]string {
	all := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(all, selector)
	return all
}

// withoutNil returns the value without keys whose value is null: to apply null would remove what
// the API server sets.
func withoutNil(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if inner == nil {
				delete(v, key)
			} else {
				v[key] = withoutNil(inner)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNil(v[i])
		}
	}
	return value
}
