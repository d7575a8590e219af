package simulation

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// daemonSet takes the next steps of a DaemonSet as Kubernetes' controller does: one pod on each node
// that fits, and with RollingUpdate pods of an older template are deleted while fewer pods than
// maxUnavailable are not ready; those that are not ready themselves at once.
func (i *installed) daemonSet(all *objects, ds *appsv1.DaemonSet) {
	if ds.DeletionTimestamp != nil {
		return
	}
	status, template := appsv1.DaemonSetStatus{ObservedGeneration: ds.Generation}, &ds.Spec.Template
	rest, unavailable := all.owned(ds), 0
	var old, broken []*corev1.Pod
	for k := range all.nodes.Items {
		node := &all.nodes.Items[k]
		is := func(p *corev1.Pod) bool { return p.Spec.NodeName == node.Name }
		var pod *corev1.Pod
		if at := slices.IndexFunc(rest, is); at >= 0 {
			pod = rest[at]
		}
		if !fits(&template.Spec, node) {
			if pod != nil {
				status.NumberMisscheduled++
			}
			continue
		}
		rest = slices.DeleteFunc(rest, is)
		status.DesiredNumberScheduled++
		if pod == nil {
			unavailable++
			i.create(ds, template, node.Name)
			continue
		}
		status.CurrentNumberScheduled++
		current, ready := isOf(pod, template), contract.PodReady(pod)
		if current {
			status.UpdatedNumberScheduled++
		}
		if ready {
			status.NumberReady++
		}
		if !ready || pod.DeletionTimestamp != nil {
			unavailable++
		}
		switch {
		case current || pod.DeletionTimestamp != nil:
		case ready:
			old = append(old, pod)
		default:
			broken = append(broken, pod)
		}
	}
	status.NumberAvailable, status.NumberUnavailable = status.NumberReady, status.DesiredNumberScheduled-status.NumberReady
	if u := ds.Spec.UpdateStrategy; u.Type == appsv1.RollingUpdateDaemonSetStrategyType && u.RollingUpdate != nil {
		most := must1(intstr.GetScaledValueFromIntOrPercent(u.RollingUpdate.MaxUnavailable, int(status.DesiredNumberScheduled), true))
		rest = slices.Concat(rest, broken, old[:min(len(old), max(0, most-unavailable))])
	}
	for _, pod := range rest {
		if pod.DeletionTimestamp == nil {
			i.remove(0, pod)
		}
	}
	before := ds.Status
	ds.Status = status
	i.count(ds, before, status)
}

// deployment takes the next steps of a Deployment of at most one pod with the strategy Recreate.
// ReplicaSets are left out: the pod is the Deployment's own.
func (i *installed) deployment(all *objects, d *appsv1.Deployment) {
	if d.DeletionTimestamp != nil {
		return
	}
	status, want := appsv1.DeploymentStatus{ObservedGeneration: d.Generation}, *d.Spec.Replicas > 0
	pods := all.owned(d)
	for _, pod := range pods {
		if status.Replicas++; contract.PodReady(pod) {
			status.ReadyReplicas++
		}
		if (!want || !isOf(pod, &d.Spec.Template)) && pod.DeletionTimestamp == nil {
			i.remove(0, pod)
		}
	}
	if node := all.nodeFor(&d.Spec.Template.Spec); want && len(pods) == 0 && node != "" {
		i.create(d, &d.Spec.Template, node)
	}
	before := d.Status
	d.Status = status
	i.count(d, before, status)
}

// job takes the next step of a Job of one pod that is not tried again.
func (i *installed) job(all *objects, job *batchv1.Job) {
	ended := func(how batchv1.JobConditionType) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		i.count(job, nil, job)
	}
	pods, node := all.owned(job), all.nodeFor(&job.Spec.Template.Spec)
	deadline := job.CreationTimestamp.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second)
	switch {
	case job.DeletionTimestamp != nil:
	case len(job.Status.Conditions) > 0:
		i.remove(time.Duration(*job.Spec.TTLSecondsAfterFinished)*time.Second, job)
	case len(pods) > 0 && pods[0].Status.Phase == corev1.PodSucceeded:
		ended(batchv1.JobComplete)
	case len(pods) > 0 && pods[0].Status.Phase == corev1.PodFailed:
		ended(batchv1.JobFailed)
	case time.Now().After(deadline):
		for _, pod := range pods {
			i.remove(0, pod)
		}
		ended(batchv1.JobFailed)
	case len(pods) == 0 && node != "":
		i.create(job, &job.Spec.Template, node)
	default:
		i.steps.doAfter(time.Until(deadline)+time.Second, "deadline "+string(job.UID), func() error { return nil })
	}
}
