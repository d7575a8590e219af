package install

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// A Job cannot unmount a pool: its image cannot be pulled, or a process of the host has a file open. A
// deletion waits, and one by force ends.
func TestForceEndsThoughAPoolStaysMounted(t *testing.T) {
	for _, forced := range []bool{false, true} {
		o := installedOn(t, "n1")
		annotations := map[string]string{}
		if forced {
			annotations[forceAnnotation] = "true"
		}
		o.deletes(annotations)
		o.endAgents("n1")
		now := time.Now()
		o.Now = func() time.Time { return now }
		for range 20 {
			o.pass("hpp")
			now = now.Add(time.Minute)
			var jobs batchv1.JobList
			if err := o.client.List(t.Context(), &jobs); err != nil {
				t.Fatal(err)
			}
			for _, job := range jobs.Items {
				job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: "busy", LastTransitionTime: metav1.NewTime(now)}}
				if err := o.client.Status().Update(t.Context(), &job); err != nil {
					t.Fatal(err)
				}
			}
		}
		cr := &v1beta1.HostPathProvisioner{}
		if err := o.client.Get(t.Context(), client.ObjectKey{Name: "hpp"}, cr); (err != nil) != forced {
			t.Errorf("forced %v: %v, %s: %s", forced, err, progress(cr.Status).Reason, progress(cr.Status).Message)
		}
		if text := o.recorded().Data["record.json"]; !strings.Contains(text, "hpp-pool-b-n1") {
			t.Errorf("forced %v: the record forgot the disk, which is mounted: %s", forced, text)
		}
	}
}
