package localpath_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/localpath"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
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
	in := func(namespaces ...string) (all []appsv1.Deployment) {
		for _, namespace := range namespaces {
			d := of(nil, 1)[0]
			d.Namespace = namespace
			all = append(all, d)
		}
		return all
	}
	pod := func(name, volume string, source corev1.VolumeSource) []corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name}}
		p.Spec.Volumes = []corev1.Volume{{Name: "script"}, {Name: volume, VolumeSource: source}}
		return []corev1.Pod{p}
	}
	hostPath := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/opt/local-path-provisioner"}}
	none, one := int32(0), int32(1)
	for name, row := range map[string]struct {
		namespaces string // the setting; "": the default
		there      []appsv1.Deployment
		pods       []corev1.Pod
		forbidden  string // the resource
		want       string // in the error; "": it does not run
		warns      string // in the event about Deployments elsewhere; "": there is none
	}{
		"none":           {},
		"second default": {there: in("local-path-storage"), want: "as Deployment local-path-storage/local-path-provisioner"},
		"of the setting": {namespaces: "storage", there: in("storage"), want: "as Deployment storage/local-path-provisioner"},
		"not of it":      {namespaces: "storage", there: in("kube-system"), warns: "runs in namespace kube-system"},
		"elsewhere":      {there: in("tenant-a"), warns: "add the namespace to --local-path-namespaces (HPP_LOCAL_PATH_NAMESPACES), which is kube-system,local-path-storage"},
		"many elsewhere": {there: in("t5", "t4", "t3", "t2", "t1"), warns: "runs in namespace t1, t2, t3 and 2 more, and new claims do not wait"},
		"in both":        {there: in("tenant-a", "kube-system"), want: "as Deployment kube-system/local-path-provisioner", warns: "runs in namespace tenant-a"},
		"elsewhere, helper": {there: in("tenant-a"), pods: pod("helper-pod-create-pvc-1", "data", hostPath),
			want: "its helper pod storage/helper-pod-create-pvc-1 is on this node", warns: "runs in namespace tenant-a"},
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
			var warned atomic.Value // the message
			client := apitest.Client(t, func(r *http.Request) (int, any) {
				want, listed := selectors[path.Base(r.URL.Path)]
				switch {
				case !listed:
					var e corev1.Event
					if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
						t.Error(err)
					}
					if e.Reason == events.OriginalElsewhere {
						warned.Store(e.Message)
					}
					return http.StatusCreated, e
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
			namespaces := strings.Split(cmp.Or(row.namespaces, "kube-system,local-path-storage"), ",")
			var err error
			o := localpath.NewOriginal(client, recorder, "node-01", namespaces, func() {})
			if err := o.Running(); err == nil {
				t.Error("it is known before it runs")
			}
			go o.Run(t.Context())
			is := func() bool {
				err = o.Running()
				runs := err == nil && row.want == "" || err != nil && row.want != "" && strings.Contains(err.Error(), row.want)
				said, warns := warned.Load().(string)
				return runs && warns == (row.warns != "") && strings.Contains(said, row.warns)
			}
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if is() {
					return
				}
			}
			t.Errorf("%v, want words %q; the event %q, want words %q", err, row.want, warned.Load(), row.warns)
		})
	}
}
