package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// untried is how long a scheduler may take until it has tried to place a pod.
const untried = time.Minute

// scheduler adds what the scheduler says about the pod that waits for the claim. It is the cause if no
// node is chosen and nothing else keeps the claim: the scheduler has another reason than the storage, or
// the nodes are unknown. That the volume was not provisioned is the result of what an event has.
func (e *explanation) scheduler() {
	pod := e.pod()
	if pod == nil || len(pod.Spec.SchedulingGates) > 0 || pod.Spec.NodeName != "" {
		return
	}
	level := Note
	if e.node() == "" && !e.answer.Blocked() {
		level = Cause
	}
	i := slices.IndexFunc(pod.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	switch since := e.Now.Sub(pod.CreationTimestamp.Time); {
	case i < 0 && level == Cause && since > untried:
		e.add(Cause, "start that scheduler, or leave spec.schedulerName out",
			"no scheduler has tried to place pod %s for %s: it names the scheduler %q", pod.Name,
			age(e.Now, pod.CreationTimestamp.Time), pod.Spec.SchedulerName)
	case i < 0 || pod.Status.Conditions[i].Status != corev1.ConditionFalse:
	default:
		message := pod.Status.Conditions[i].Message
		if strings.Contains(message, "binding volumes") && e.warned() != nil {
			level = Note
		}
		e.add(level, "", "pod %s, which uses the claim, is not scheduled: %s", pod.Name, message)
	}
}

// warned returns the newest Warning about the claim, nil if there is none.
func (e *explanation) warned() *corev1.Event { return newestWarning(e.Events) }

func newestWarning(all cluster.List[corev1.Event]) *corev1.Event {
	return all.Find(func(event *corev1.Event) bool { return event.Type == corev1.EventTypeWarning })
}
