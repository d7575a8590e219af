package simulation

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// objects are those that a pass of the controllers reads.
type objects struct {
	nodes       corev1.NodeList
	pods        corev1.PodList
	sets        appsv1.DaemonSetList
	deployments appsv1.DeploymentList
	jobs        batchv1.JobList
	claims      corev1.PersistentVolumeClaimList
	volumes     corev1.PersistentVolumeList
	resources   v1beta1.HostPathProvisionerList
}

// run runs the controllers of workloads, the garbage collector and the kubelets until the bubble ends.
func (i *installed) run() {
	for {
		if i.collect.Swap(false) {
			i.API.Collect("god")
		}
		if i.pass(); i.steps.acted {
			continue
		}
		next := 10 * time.Minute // rules look at what does not change
		if !i.steps.next.IsZero() {
			next = min(next, time.Until(i.steps.next))
		}
		select {
		case <-i.wake:
		case <-time.After(next):
		}
	}
}

// pass takes each step that is due.
func (i *installed) pass() {
	s := i.steps
	s.seen, s.next, s.acted = map[string]bool{}, time.Time{}, false
	for n, p := range i.operators {
		select {
		case <-p.done:
			if !p.killed.Load() {
				s.doAfter(10*time.Second, "start "+p.who, func() error { i.startOperator(n); return nil })
			}
		default:
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.read()
	for k := range all.sets.Items {
		i.daemonSet(all, &all.sets.Items[k])
	}
	for k := range all.deployments.Items {
		i.deployment(all, &all.deployments.Items[k])
	}
	for k := range all.jobs.Items {
		i.job(all, &all.jobs.Items[k])
	}
	i.kubelets(all)
	i.disks(all)
	i.rollouts(all)
	for step := range s.due {
		if !s.seen[step] {
			delete(s.due, step)
		}
	}
}

// read returns the objects, which the caller may change. It asks for those kinds that changed.
func (i *installed) read() *objects {
	all := i.had
	for resource, list := range map[string]client.ObjectList{"nodes": &all.nodes, "pods": &all.pods, "daemonsets": &all.sets,
		"deployments": &all.deployments, "jobs": &all.jobs, "persistentvolumeclaims": &all.claims, "persistentvolumes": &all.volumes,
		"hostpathprovisioners": &all.resources} {
		if same, _ := i.same.Swap(resource, true); same == nil || !same.(bool) {
			must(i.people.List(ctx, list))
		}
	}
	return &objects{nodes: *all.nodes.DeepCopy(), pods: *all.pods.DeepCopy(), sets: *all.sets.DeepCopy(), deployments: *all.deployments.DeepCopy(),
		jobs: *all.jobs.DeepCopy(), claims: *all.claims.DeepCopy(), volumes: *all.volumes.DeepCopy(), resources: *all.resources.DeepCopy()}
}

// owned returns the pods of an owner.
func (all *objects) owned(by client.Object) (pods []*corev1.Pod) {
	for k := range all.pods.Items {
		if metav1.IsControlledBy(&all.pods.Items[k], by) {
			pods = append(pods, &all.pods.Items[k])
		}
	}
	return pods
}

// claim returns the claim of that name, nil if there is none.
func (all *objects) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	for k := range all.claims.Items {
		if c := &all.claims.Items[k]; c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

// nodeFor returns a node that a pod may be on, "" if there is none or a claim of the pod is absent or
// being deleted.
func (all *objects) nodeFor(pod *corev1.PodSpec) string {
	for _, v := range pod.Volumes {
		if v.PersistentVolumeClaim != nil {
			if c := all.claim(namespace, v.PersistentVolumeClaim.ClaimName); c == nil || c.DeletionTimestamp != nil {
				return ""
			}
		}
	}
	for k := range all.nodes.Items {
		if fits(pod, &all.nodes.Items[k]) {
			return all.nodes.Items[k].Name
		}
	}
	return ""
}

// fits reports whether a pod may run on the node.
func fits(pod *corev1.PodSpec, node *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *pod}).Match(node)
	return ok && err == nil
}

// isOf reports whether a pod was made of the template as it is now.
func isOf(pod *corev1.Pod, t *corev1.PodTemplateSpec) bool {
	return pod.Labels[revisionLabel] == revision(t)
}

// revisionLabel has the hash of the template that a pod was made of.
const revisionLabel = "controller-revision-hash"

func revision(t *corev1.PodTemplateSpec) string {
	h := fnv.New32a()
	_ = json.NewEncoder(h).Encode(t) // a hash takes everything
	return fmt.Sprintf("%08x", h.Sum32())
}

// create makes a pod of the owner's template on a node.
func (i *installed) create(owner client.Object, t *corev1.PodTemplateSpec, node string) {
	i.steps.do("create "+string(owner.GetUID())+node, func() error {
		pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
		pod.GenerateName, pod.Namespace, pod.Spec.NodeName = owner.GetName()+"-", owner.GetNamespace(), node
		metav1.SetMetaDataLabel(&pod.ObjectMeta, revisionLabel, revision(t))
		metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1.JobNameLabel, owner.GetName())
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, must1(i.people.GroupVersionKindFor(owner)))}
		return i.people.Create(ctx, pod)
	})
}

// remove deletes an object.
func (i *installed) remove(after time.Duration, o client.Object, how ...client.DeleteOption) {
	uid := o.GetUID()
	i.steps.doAfter(after, fmt.Sprint("delete ", uid, len(how)), func() error {
		return i.people.Delete(ctx, o, append(how, client.Preconditions{UID: &uid})...)
	})
}

// count writes the status of an object if it changed.
func (i *installed) count(o client.Object, before, now any) {
	if !equality.Semantic.DeepEqual(before, now) {
		i.steps.do("status "+string(o.GetUID()), func() error { return i.people.Status().Update(ctx, o) })
	}
}
