package localpath_test

import (
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/localpath"
)

// selectors are the objects that an agent of node-01 reads.
var selectors = map[string]string{
	"deployments": "metadata.name=local-path-provisioner",
	"pods":        "spec.nodeName=node-01,status.phase!=Succeeded,status.phase!=Failed",
}

func TestOriginalRunning(t *testing.T) {
	of := func(wanted *int32, there int32) []appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "local-path-provisioner"}}
		d.Spec.Replicas, d.Status.Replicas = wanted, there
		return []appsv1.Deployment{d}
	}
	pod := func(name, volume string, source corev1.VolumeSource) []corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name}}
		p.Spec.Volumes = []corev1.Volume{{Name: "script"}, {Name: volume, VolumeSource: source}}
		return []corev1.Pod{p}
	}
	hostPath := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/opt/local-path-provisioner"}}
	none, one := int32(0), int32(1)
	for name, row := range map[string]struct {
		there     []appsv1.Deployment
		pods      []corev1.Pod
		forbidden string // the resource
		want      string // in the error; "": it does not run
	}{
		"none":           {},
		"default":        {there: of(nil, 0), want: "as Deployment kube-system/local-path-provisioner"},
		"one":            {there: of(&one, 0), want: "scale it to 0"},
		"scaled":         {there: of(&none, 0)},
		"still there":    {there: of(&none, 1), want: "runs too"},
		"forbidden":      {forbidden: "deployments", want: "it is not known whether"},
		"forbidden pods": {forbidden: "pods", want: "it is not known whether"},
		"helper":         {pods: pod("helper-pod-create-pvc-1", "data", hostPath), want: "its helper pod storage/helper-pod-create-pvc-1 is on this node"},
		"helper deletes": {pods: pod("helper-pod-delete-pvc-1", "data", hostPath), want: "scale it to 0"},
		"another name":   {pods: pod("create-pvc-1", "data", hostPath)},
		"another volume": {pods: pod("helper-pod-create-pvc-1", "other", hostPath)},
		"of a tenant":    {pods: pod("helper-pod-create-pvc-1", "data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := apitest.Client(t, func(r *http.Request) (int, any) {
				want, listed := selectors[path.Base(r.URL.Path)]
				switch {
				case !listed:
					return http.StatusCreated, metav1.Status{}
				case row.forbidden == path.Base(r.URL.Path):
					return http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden)
				case r.URL.Query().Get("fieldSelector") != want:
					t.Errorf("it asks for %s", r.URL)
				case r.URL.Query().Get("sendInitialEvents") != "":
					return http.StatusUnprocessableEntity, apitest.Failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // an older server
				case r.URL.Query().Get("watch") != "":
					<-r.Context().Done()
				}
				if path.Base(r.URL.Path) == "pods" {
					return http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
						ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: row.pods}
				}
				return http.StatusOK, appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"},
					ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: row.there}
			})
			recorder := events.New(client, "node-01")
			t.Cleanup(recorder.Close)
			o := localpath.NewOriginal(client, recorder, "node-01", func() {})
			if err := o.Running(); err == nil {
				t.Error("it is known before it runs")
			}
			go o.Run(t.Context())
			var err error
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if err = o.Running(); err == nil && row.want == "" || err != nil && row.want != "" && strings.Contains(err.Error(), row.want) {
					return
				}
			}
			t.Errorf("%v, want words %q", err, row.want)
		})
	}
}
