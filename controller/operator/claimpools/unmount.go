package claimpools

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/timing"
)

const (
	// unmountFor is how long one Job tries, and jobFor how long it may exist until it has to be
	// over.
	unmountFor = time.Minute
	jobFor     = 2 * time.Minute
)

// retryAfter is the time after which a Job that failed is replaced by another one.
var retryAfter = timing.Scaled(15 * time.Second)

// unmounter returns the Job that unmounts what the holder mounted. The Deployment owns it: the Job
// of another Deployment of that name proves nothing about this one.
func (r *Reconciler) unmounter(cr *v1beta1.HostPathProvisioner, d *appsv1.Deployment, node string) *batchv1.Job {
	h := r.recordOf(d)
	// Without the claim's UID the holder's pod recorded none: it is one of an earlier version.
	h.ClaimUID = claimOf(d)
	args := append([]string{"unmount", "--path=" + h.Path, "--deadline=" + unmountFor.String()}, h.Arguments()...)
	pod := r.pod(cr, node, h.Path, "unmount", args...)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.HostPID = true // to name the processes that use the mount
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: jobOf(h.Pool, node), Namespace: r.Namespace, Labels: r.labels(h.Pool),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID,
				Controller: ptr.To(true)}}},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32), ActiveDeadlineSeconds: ptr.To(int64(jobFor.Seconds())),
			TTLSecondsAfterFinished: ptr.To[int32](300),
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: constrained}, Spec: pod},
		},
	}
}

// jobResult returns how and when the Job ended.
func jobResult(job *batchv1.Job) (how batchv1.JobConditionType, at metav1.Time, message string) {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type, c.LastTransitionTime, c.Message
		}
	}
	return "", metav1.Time{}, ""
}
