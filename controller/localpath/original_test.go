package localpath_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/localpath"
)

func TestOriginalRunning(t *testing.T) {
	of := func(wanted *int32, there int32) []appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "local-path-provisioner"}}
		d.Spec.Replicas, d.Status.Replicas = wanted, there
		return []appsv1.Deployment{d}
	}
	none, one := int32(0), int32(1)
	for name, row := range map[string]struct {
		there     []appsv1.Deployment
		forbidden bool
		want      string // in the error; "": it does not run
	}{
		"none":        {},
		"default":     {of(nil, 0), false, "as Deployment kube-system/local-path-provisioner"},
		"one":         {of(&one, 0), false, "scale it to 0"},
		"scaled":      {of(&none, 0), false, ""},
		"still there": {of(&none, 1), false, "runs too"},
		"forbidden":   {nil, true, "it is not known whether"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := apitest.Client(t, func(r *http.Request) (int, any) {
				switch {
				case r.URL.Path != "/apis/apps/v1/deployments":
					return http.StatusCreated, metav1.Status{}
				case row.forbidden:
					return http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden)
				case r.URL.Query().Get("fieldSelector") != "metadata.name=local-path-provisioner":
					t.Errorf("it asks for %s", r.URL)
				case r.URL.Query().Get("sendInitialEvents") != "":
					return http.StatusUnprocessableEntity, apitest.Failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // an older server
				case r.URL.Query().Get("watch") != "":
					<-r.Context().Done()
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
