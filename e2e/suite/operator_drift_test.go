package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// agents is the name of the agents' objects, daemons that of their DaemonSet.
const (
	agents  = "hostpath-provisioner-admin-csi"
	daemons = "hostpath-provisioner-csi"
)

// kind is a client of a kind, GROUP/VERSION/RESOURCE.
func (o *operated) kind(kind string) dynamic.ResourceInterface {
	o.Helper()
	switch kind[strings.LastIndex(kind, "/")+1:] {
	case "daemonsets", "deployments", "persistentvolumeclaims", "secrets", "serviceaccounts", "services", "roles", "rolebindings", "servicemonitors", "prometheusrules":
		return objects(o.Scene, kind, harness.Namespace)
	}
	return objects(o.Scene, kind)
}

func (o *operated) get(kind, name string) *unstructured.Unstructured {
	o.Helper()
	object, err := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	return object
}

// installs is the first part: the objects are created, and the conditions and events follow the
// pods.
func installs(_ *testing.T, o *operated) {
	for _, node := range o.nodes {
		defer o.breaks("")
		o.breaks(node.Name)
	}
	o.create(serving, pools("local=/var/hpvolumes"))
	o.await("FTF", "DeployStarted", "Started Deployment")
	o.breaks("")
	o.healthy()
	for _, reason := range []string{"DeployStarted", "CreateResourceSuccess", "ProvisionerHealthy"} {
		o.Eventually("event "+reason, func() error {
			if n, err := o.events(reason); err != nil || n == 0 {
				return errors.Join(err, errors.New("no event"))
			}
			return nil
		})
	}
	cr := o.get("hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners", serving)
	for _, field := range []string{"operatorVersion", "targetVersion", "observedVersion"} {
		if v, _, _ := unstructured.NestedString(cr.Object, "status", field); v != "unknown" {
			o.Errorf("%s is %q", field, v)
		}
	}
	states, _, _ := unstructured.NestedSlice(cr.Object, "status", "storagePoolStatuses")
	if text, _ := json.Marshal(states); string(text) != `[{"currentReady":2,"desiredReady":2,"name":"local","phase":"Ready"}]` {
		o.Errorf("pools %s", text)
	}
}

// events counts the events of the resource with the reason.
func (o *operated) events(reason string) (n int, err error) {
	list, err := o.Client.CoreV1().Events(metav1.NamespaceAll).List(o.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=HostPathProvisioner,reason=" + reason})
	if err == nil {
		n = len(list.Items)
	}
	return n, err
}

// deleted is a part in which an object is deleted, and created again.
func deleted(kind, name string) func(*testing.T, *operated) {
	return func(_ *testing.T, o *operated) {
		before := o.get(kind, name)
		if err := o.kind(kind).Delete(o.Context(), name, metav1.DeleteOptions{}); err != nil {
			o.Fatal(err)
		}
		o.Within(repaired, "created again", func() error {
			after, err := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{})
			if err == nil && after.GetUID() == before.GetUID() {
				err = errors.New("it is still the object before")
			}
			return err
		})
		after := o.get(kind, name)
		if !same(before, after, "spec") || !same(before, after, "rules") {
			o.Errorf("before %v\nafter %v", before, after)
		}
		o.healthy()
	}
}

func same(a, b *unstructured.Unstructured, field string) bool {
	before, err := json.Marshal(a.Object[field])
	after, err2 := json.Marshal(b.Object[field])
	return err == nil && err2 == nil && string(before) == string(after)
}

// modified is a part in which a list of the object of roles and bindings is emptied.
func modified(kind, field string) func(*testing.T, *operated) {
	return func(_ *testing.T, o *operated) {
		o.edited(kind, agents, field, func(object *unstructured.Unstructured) { delete(object.Object, field) })
	}
}

// edited updates an object as kubectl edit does, and waits until the field is as before.
func (o *operated) edited(kind, name, field string, edit func(*unstructured.Unstructured)) {
	o.Helper()
	var before, after *unstructured.Unstructured
	o.Eventually("edited", func() (err error) { // its status changes meanwhile
		before = o.get(kind, name)
		changed := before.DeepCopy()
		edit(changed)
		after, err = o.kind(kind).Update(o.Context(), changed, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		return err
	})
	if same(before, after, field) {
		o.Fatalf("the edit changed nothing of %s", field)
	}
	o.Within(repaired, "repaired", func() error {
		if after := o.get(kind, name); !same(before, after, field) {
			return fmt.Errorf("%v, want %v", after.Object[field], before.Object[field])
		}
		return nil
	})
	o.healthy()
}

// daemonSetModified has changes of what the operator sets, and additions to it.
func daemonSetModified(t *testing.T, o *operated) {
	for name, edit := range map[string]func(*corev1.PodSpec){
		"image": func(p *corev1.PodSpec) { p.Containers[0].Image = "example.com/other" },
		"variable": func(p *corev1.PodSpec) {
			p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "X", Value: "y"})
		},
		"container": func(p *corev1.PodSpec) {
			p.Containers = append(p.Containers, corev1.Container{Name: "other", Image: "example.com/other"})
		},
		"network": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"mount":   func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts = p.Containers[0].VolumeMounts[:2] },
	} {
		t.Run(name, func(t *testing.T) {
			o.in(t).edited("apps/v1/daemonsets", daemons, "spec", func(object *unstructured.Unstructured) {
				var ds appsv1.DaemonSet
				convert(t, object.Object, &ds)
				edit(&ds.Spec.Template.Spec)
				object.Object = nil
				convert(t, ds, &object.Object)
			})
		})
	}
}

// convert converts an object by way of JSON.
func convert(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func accountModified(_ *testing.T, o *operated) {
	account := o.get("/v1/serviceaccounts", agents)
	account.SetOwnerReferences(nil)
	if _, err := o.kind("/v1/serviceaccounts").Update(o.Context(), account, metav1.UpdateOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Within(repaired, "owner", func() error {
		if refs := o.get("/v1/serviceaccounts", agents).GetOwnerReferences(); len(refs) != 1 || refs[0].Kind != "HostPathProvisioner" {
			return fmt.Errorf("owners %v", refs)
		}
		return nil
	})
}
