package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// placed has the placement set, changed and removed.
func placed(t *testing.T, o *operated) {
	for _, row := range []struct{ name, workload, want string }{
		{"set", `{"nodeSelector":{"kubernetes.io/os":"linux","a":"b"},"tolerations":[{"key":"x","operator":"Exists"}],
			"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"y","operator":"Exists"}]}]}}}}`,
			`{"a":"b","kubernetes.io/os":"linux"} [{"key":"x","operator":"Exists"}] [{"matchExpressions":[{"key":"y","operator":"Exists"}]}]`},
		{"removed", `null`, `{"kubernetes.io/os":"linux"} null null`},
	} {
		o.change(`{"spec":{"workload":` + row.workload + `}}`)
		o.Eventually(row.name, func() error {
			pod, _, _ := unstructured.NestedMap(o.get("apps/v1/daemonsets", daemons).Object, "spec", "template", "spec")
			terms, _, _ := unstructured.NestedFieldNoCopy(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			got := []string{}
			for _, v := range []any{pod["nodeSelector"], pod["tolerations"], terms} {
				text, _ := json.Marshal(v)
				got = append(got, string(text))
			}
			if text := strings.Join(got, " "); text != row.want {
				return fmt.Errorf("%s, want %s", text, row.want)
			}
			return nil
		})
		if row.name == "set" {
			o.await("FFT", "Degraded", "no node matches spec.workload")
		}
	}
	o.healthy()
}

// metadataStays has labels and annotations of users on what the operator keeps.
func metadataStays(_ *testing.T, o *operated) {
	patch := []byte(`{"metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}},"spec":{"minReadySeconds":1}}`)
	if _, err := o.kind("apps/v1/daemonsets").Patch(o.Context(), daemons, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Within(repaired, "spec repaired", func() error {
		ds := o.get("apps/v1/daemonsets", daemons)
		if n, _, _ := unstructured.NestedInt64(ds.Object, "spec", "minReadySeconds"); n != 0 {
			return fmt.Errorf("minReadySeconds is %d", n)
		}
		if ds.GetLabels()["team"] != "a" || ds.GetAnnotations()["note"] != "b" {
			o.Fatalf("labels %v, annotations %v", ds.GetLabels(), ds.GetAnnotations())
		}
		return nil
	})
	o.healthy()
}

// second has another resource, which is refused by name until the first is gone.
func second(_ *testing.T, o *operated) {
	time.Sleep(time.Second) // creation times have no fractions
	o.create("a-second", pools("other=/srv/other"))
	o.Eventually("refused", func() error {
		return o.is("a-second", "FFT", "MultipleResources", "only one HostPathProvisioner is served, and hostpath-provisioner is older")
	})
	o.healthy()
	if err := resources(o.Scene).Delete(o.Context(), "a-second", metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Eventually("gone", func() error {
		_, err := resources(o.Scene).Get(o.Context(), "a-second", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	o.healthy()
}

// notReady has an agent that fails, which its conditions name.
func notReady(_ *testing.T, o *operated) {
	o.breaks(o.nodes[0].Name)
	defer o.breaks("")
	o.await("FFT", "Degraded", "1 of 2 agents are ready; not ready: "+o.nodes[0].Name)
	o.breaks("")
	o.healthy()
}

// upgrades has a resource that another version served.
func upgrades(_ *testing.T, o *operated) {
	o.breaks(o.nodes[0].Name)
	defer o.breaks("")
	o.await("FFT", "Degraded", "1 of 2")
	o.report("v0.25.0")
	o.await("TTF", "UpgradeStarted", "Started upgrade to version unknown")
	o.breaks("")
	o.healthy()
}

// servesPath has a resource with pathConfig: one process serves both kinds of volumes.
func servesPath(_ *testing.T, o *operated) {
	o.change(`{"spec":{"storagePools":null,"pathConfig":{"path":"/srv/legacy","useNamingPrefix":true},"imagePullPolicy":"Always"}}`)
	o.Eventually("pod", func() error {
		pod := o.agentPod()
		if len(pod.Containers) != 1 || len(pod.Volumes) != 4 || pod.Containers[0].ImagePullPolicy != corev1.PullAlways {
			return fmt.Errorf("pod %+v", pod)
		}
		return o.hasVariables("PROVISION=hostpath,csi", "PV_DIR=/srv/legacy", "USE_NAMING_PREFIX=true",
			`DATADIR=[{"name":"legacy","path":"/srv/legacy/csi"}]`)
	})
	o.healthy()
}

// switched has a resource that goes from pathConfig to pools while PVs of both kinds are there.
func switched(_ *testing.T, o *operated) {
	o.pv("of-csi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "of-csi"}})
	o.pv("of-path", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/legacy/pvc-1"}})
	o.change(`{"spec":{"pathConfig":null,"storagePools":[{"name":"local","path":"/srv/legacy"},{"name":"other","path":"/srv/other"}]}}`)
	o.await("TTF", "PoolInUse", "pool legacy stays at /srv/legacy, in use by 1 PV; delete them first; pool local, which has the same path, is offered then")
	if err := o.hasVariables("PROVISION=hostpath,csi", "PV_DIR=/srv/legacy", "USE_NAMING_PREFIX=true",
		`DATADIR=[{"name":"legacy","path":"/srv/legacy/csi"},{"name":"other","path":"/srv/other/csi"}]`); err != nil {
		o.Error(err)
	}
	o.noPV("of-csi")
	o.await("TTF", "PoolInUse", "hostPath volumes stay in /srv/legacy, in use by 1 PV; delete them first")
	o.noPV("of-path")
	o.healthy()
	if err := o.hasVariables("PROVISION=csi", `DATADIR=[{"name":"local","path":"/srv/legacy/csi"},{"name":"other","path":"/srv/other/csi"}]`); err != nil {
		o.Error(err)
	}
}

// agentPod returns the template of the agents' pods.
func (o *operated) agentPod() corev1.PodSpec {
	o.Helper()
	ds, err := o.Client.AppsV1().DaemonSets(harness.Namespace).Get(o.Context(), daemons, metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	return ds.Spec.Template.Spec
}

// hasVariables returns nil if the agents have these variables, NAME=VALUE.
func (o *operated) hasVariables(want ...string) error {
	o.Helper()
	got := []string{}
	for _, v := range o.agentPod().Containers[0].Env {
		got = append(got, v.Name+"="+v.Value)
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			return fmt.Errorf("variables %q, want %q", got, w)
		}
	}
	return nil
}

// pv creates a PV of the provisioners. Its class is that of no claim: Kubernetes would bind it to
// one that has waited for a while.
func (o *operated) pv(name string, source corev1.PersistentVolumeSource) {
	o.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{harness.AnnProvisionedBy: harness.Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, PersistentVolumeSource: source, StorageClassName: "of-no-claim",
		},
	}
	if _, err := o.Client.CoreV1().PersistentVolumes().Create(o.Context(), pv, metav1.CreateOptions{}); err != nil {
		o.Fatal(err)
	}
}

func (o *operated) noPV(name string) {
	o.Helper()
	pvs := o.Client.CoreV1().PersistentVolumes()
	if err := pvs.Delete(o.Context(), name, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Eventually("PV gone", func() error {
		pv, err := pvs.Get(o.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("finalizers %v, phase %s", pv.Finalizers, pv.Status.Phase)
	})
}

// deletes has the resource deleted while a volume is in use, and then without.
func deletes(_ *testing.T, o *operated) {
	o.pv("in-use", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "in-use",
		VolumeAttributes: map[string]string{harness.StoragePool: "local"}}})
	if err := resources(o.Scene).Delete(o.Context(), serving, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.await("TTF", "VolumesInUse", "waits for 1 volume to be deleted: PV in-use")
	if err := o.kind("/v1/serviceaccounts").Delete(o.Context(), agents, metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Within(repaired, "agents kept meanwhile", func() error {
		_, err := o.kind("/v1/serviceaccounts").Get(o.Context(), agents, metav1.GetOptions{})
		return err
	})
	o.noPV("in-use")
	o.Eventually("gone", o.removed)
	o.nothingLeft()
}
