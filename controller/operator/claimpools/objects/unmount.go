package objects

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

const (
	// UnmountFor is how long one Job tries, and jobFor how long it may exist until it has to be
	// over.
	UnmountFor = time.Minute
	jobFor     = 2 * time.Minute
)

// Unmounter returns the Job that unmounts what the holder mounted, by its record. The Deployment owns it: the Job
// of another Deployment of that name proves nothing about this one.
func (m Maker) Unmounter(cr *v1beta1.HostPathProvisioner, d *appsv1.Deployment, h poolrecord.Holder) *batchv1.Job {
	// Without the claim's UID the holder's pod recorded none: it is one of an earlier version.
	h.ClaimUID = ClaimOf(d)
	args := append([]string{"unmount", "--path=" + h.Path, "--deadline=" + UnmountFor.String()}, h.Arguments()...)
	pod := m.pod(cr, h.Node, h.Path, "unmount", args...)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.HostPID = true // to name the processes that use the mount
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: JobOf(h.Pool, h.Node), Namespace: m.Namespace, Labels: m.HolderLabels(h.Pool),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID,
				Controller: ptr.To(true)}}},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32), ActiveDeadlineSeconds: ptr.To(int64(jobFor.Seconds())),
			TTLSecondsAfterFinished: ptr.To[int32](300),
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: constrained}, Spec: pod},
		},
	}
}
