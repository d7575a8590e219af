package removal

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// of returns the metadata of an object of a release.
func of(release, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "storage", Name: name, Annotations: map[string]string{
		"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "storage"}}
}

// agents is the DaemonSet of a release's agents, with the settings of a form.
func agents(release, name, form string) *appsv1.DaemonSet {
	c := corev1.Container{Name: "hostpath-provisioner"}
	for key, value := range settings[form] {
		c.Env = append(c.Env, corev1.EnvVar{Name: key, Value: value})
	}
	return &appsv1.DaemonSet{ObjectMeta: of(release, name), Spec: appsv1.DaemonSetSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}}}
}

// by is a hostPath PV of a provisioner.
func by(provisioner string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-" + strings.ReplaceAll(provisioner, "/", "-"),
		Annotations: map[string]string{contract.AnnProvisionedBy: provisioner}}}
}

func TestCheckUpgrade(t *testing.T) {
	csi, legacy := agents("r", "hostpath-provisioner-csi", "csi"), agents("r", "hostpath-provisioner", "legacy")
	both := agents("r", "hostpath-provisioner-csi", "both")
	sidecars := agents("r", "hostpath-provisioner-csi", "csi")
	sidecars.Spec.Template.Spec.Containers = []corev1.Container{{Name: "csi-provisioner"},
		{Name: "hostpath-provisioner", Args: []string{"--endpoint=unix:///csi/csi.sock"}, Env: []corev1.EnvVar{{Name: "PROVISION"}}}}
	local, one := agents("r", "hostpath-provisioner-local-path", "local-path"), agents("r", "hostpath-provisioner", "single-node")
	operator := &appsv1.Deployment{ObjectMeta: of("r", Operator)}
	resource := &v1beta1.HostPathProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "hpp"}}
	csiPV, hostPath := pv("c", contract.CSIProvisioner), by(contract.HostPathProvisioner)
	running := pod("a", corev1.PodRunning, inline(contract.CSIProvisioner))
	for _, row := range []struct {
		what, form, words string
		objects           []client.Object
	}{
		{"CSI PVs", "legacy", "no agent of the form serves kubevirt.io.hostpath-provisioner, which these need: PV of-c; migrate them first, or use a form that serves them",
			[]client.Object{csi, csiPV}},
		{"an inline volume", "none", "need: pod ns/a; migrate", []client.Object{csi, running}},
		{"an inline volume of a pod that ended", "none", "", []client.Object{csi, pod("a", corev1.PodSucceeded, inline(contract.CSIProvisioner))}},
		{"sidecars", "single-node", "PV of-c", []client.Object{sidecars, csiPV}},
		{"sidecars to csi", "csi", "", []client.Object{sidecars, csiPV, running}},
		{"no PVs", "legacy", "", []client.Object{csi, hostPath, pv("c", "other")}},
		{"the same form", "csi", "", []client.Object{csi, csiPV, running}},
		{"csi to both", "both", "", []client.Object{csi, csiPV}},
		{"csi to operator", "operator", "", []client.Object{csi, csiPV}},
		{"both to csi", "csi", "serves kubevirt.io/hostpath-provisioner, which these need: PV of-kubevirt.io-hostpath-provisioner", []client.Object{both, csiPV, hostPath}},
		{"both to csi, all migrated", "csi", "", []client.Object{both, csiPV}},
		{"both to none", "none", "kubevirt.io/hostpath-provisioner and kubevirt.io.hostpath-provisioner, which", []client.Object{both, csiPV}},
		{"legacy to csi", "csi", "PV of-kubevirt.io-hostpath-provisioner", []client.Object{legacy, hostPath}},
		{"legacy to single-node", "single-node", "PV of-kubevirt.io-hostpath-provisioner", []client.Object{legacy, hostPath}},
		{"single-node to legacy", "legacy", "serves hostpath, which these need: PV of-hostpath", []client.Object{one, by("hostpath")}},
		{"local-path to csi", "csi", "PV of-rancher.io-local-path", []client.Object{local, by("rancher.io/local-path")}},
		{"of another release", "none", "", []client.Object{agents("other", "hostpath-provisioner-csi", "csi"), csiPV}},
		{"of no release", "none", "", []client.Object{&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "hostpath-provisioner-csi"},
			Spec: csi.Spec}, csiPV}},
		{"the operator with its resource", "csi", "wait until they are gone: hpp", []client.Object{operator, resource, csiPV}},
		{"the operator without", "csi", "", []client.Object{operator}},
		{"the operator of another release", "csi", "", []client.Object{&appsv1.Deployment{ObjectMeta: of("other", Operator)}, resource}},
	} {
		err := Upgrade{Release: "r", Namespace: "storage", Form: row.form}.Check(t.Context(), fakeOf(t, nil, row.objects...))
		if (err == nil) != (row.words == "") || err != nil && !strings.Contains(err.Error(), row.words) {
			t.Errorf("%s: %v, want words %q", row.what, err, row.words)
		}
	}
}

// The agents of a form may be set to serve more than it, or less.
func TestCheckUpgradeWithSettings(t *testing.T) {
	both, csiPV, hostPath := agents("r", "hostpath-provisioner-csi", "both"), pv("c", contract.CSIProvisioner), by(contract.HostPathProvisioner)
	for _, row := range []struct {
		form, name, value string
		refused           bool
	}{
		{"csi", "PROVISION", "hostpath,csi", false}, {"both", "PROVISION", "csi", true},
		{"both", "COMPAT", "local-path", false}, {"legacy", "COMPAT", "local-path", true},
	} {
		u := Upgrade{Release: "r", Namespace: "storage", Form: row.form, Env: map[string]string{row.name: row.value}}
		if err := u.Check(t.Context(), fakeOf(t, nil, both, csiPV, hostPath)); (err != nil) != row.refused {
			t.Errorf("%s with %s=%s: %v", row.form, row.name, row.value, err)
		}
	}
}

// Helm removes the objects of the last revision, which may be of an upgrade that was refused.
func TestCheckRelease(t *testing.T) {
	csi, operator := agents("r", "hostpath-provisioner-csi", "csi"), &appsv1.Deployment{ObjectMeta: of("r", Operator)}
	running := pod("a", corev1.PodRunning, inline(contract.CSIProvisioner))
	for _, row := range []struct {
		what, form, words string
		objects           []client.Object
	}{
		{"its own form, with a pod", "csi", "first: ns/a", []client.Object{csi, running}},
		{"its own form, without", "csi", "", []client.Object{csi}},
		{"csi, after a refused upgrade to both", "both", "first: ns/a", []client.Object{csi, running}},
		{"csi, after a refused upgrade", "legacy", "release r was refused or failed, and hostpath-provisioner-csi is that of an earlier revision", []client.Object{csi}},
		{"csi, after a refused upgrade to none", "none", "roll back to the revision", []client.Object{csi, running}},
		{"the operator, after a refused upgrade", "csi", "and hostpath-provisioner-operator is", []client.Object{operator, agents("other", "hostpath-provisioner-csi", "csi")}},
		{"another release", "none", "", []client.Object{agents("other", "hostpath-provisioner-csi", "csi"), running}},
		{"nothing runs", "legacy", "", nil},
	} {
		err := CheckRelease(t.Context(), fakeOf(t, nil, row.objects...), "r", "storage", row.form)
		if (err == nil) != (row.words == "") || err != nil && !strings.Contains(err.Error(), row.words) {
			t.Errorf("%s: %v, want words %q", row.what, err, row.words)
		}
	}
	if err := CheckRelease(t.Context(), unreadable{fakeOf(t, nil)}, "r", "storage", "none"); err == nil {
		t.Error("workloads that cannot be read are none")
	}
}

// What cannot be read is not taken for absent.
func TestCheckUpgradeUnread(t *testing.T) {
	u := Upgrade{Release: "r", Namespace: "storage", Form: "legacy"}
	if err := u.Check(t.Context(), fakeOf(t, context.DeadlineExceeded, agents("r", "hostpath-provisioner-csi", "csi"))); err == nil {
		t.Error("PVs that cannot be listed are none")
	}
	if err := u.Check(t.Context(), unreadable{fakeOf(t, nil)}); err == nil {
		t.Error("agents that cannot be read are none")
	}
}

// unreadable fails each read of one object.
type unreadable struct{ client.Client }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return context.DeadlineExceeded
}
