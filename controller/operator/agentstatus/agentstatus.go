// Package agentstatus judges how many agents are ready, and how far their rollout is, from their
// DaemonSet and its pods.
//
// The two come from caches and do not agree at every moment:
//
//   - the cached DaemonSet may lack what was just written, and then counts the older agents;
//   - Kubernetes counts a pod as updated and as ready until it is gone, also while it ends;
//   - the DaemonSet counts a pod a moment after the pod became ready;
//   - a node that got a taint keeps its agent, which Kubernetes counts as misscheduled and not as
//     ready.
//
// So an agent counts as ready only if it is ready in both. While one of the two lags behind, State
// is that of a rollout that goes on, or is marked as Counting.
package agentstatus

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Startup is how long an agent may take to become ready, its pod to end, or Kubernetes to create
// the pod, before the agent has failed.
const Startup = 2 * time.Minute

// Observed is what was read of the agents, and what is known from before.
type Observed struct {
	// DaemonSet is nil if the agents are not installed.
	DaemonSet *appsv1.DaemonSet
	// Pods may contain others than the DaemonSet's.
	Pods []corev1.Pod
	// Published may contain what others than the agents published.
	Published []storagev1.CSIStorageCapacity
	// Written is the generation of the DaemonSet that was just written, 0 if it was not.
	Written int64
	// Rolling is set if a rollout went on when the agents were judged before: it ends when its last
	// agent is ready.
	Rolling bool
	// MissingSince is that of the State before.
	MissingSince time.Time
	Now          time.Time
}

// State is the state of the agents.
type State struct {
	// Desired is the number of agents that there should be, and Ready that of the ready ones.
	Desired, Ready int
	// Rolling is set while pods of an older template run or end, and until the last new one is
	// ready.
	Rolling bool
	// Counting is set while all agents are ready, and the DaemonSet does not count them yet, or one has
	// yet to publish its pools: the state is not to be shown. One of them changes once more.
	Counting bool
	// Left is the time until the first agent has failed, 0 if none is on its way.
	Left time.Duration
	// Failed is set if an agent has not been ready for Startup.
	Failed bool
	// Unready are the nodes of pods that are not ready, or that end.
	Unready []string
	// Endless are the pods that do not end, with their nodes.
	Endless []string
	// Missing is the number of agents without a pod, and MissingSince the time since which there
	// have been such agents, zero if there are none.
	Missing      int
	MissingSince time.Time
	// Running are the pods on a node that do not end, in the order of their nodes.
	Running []corev1.Pod
	// Agents are those of Running, with their pools.
	Agents []Agent
	// Settled is set if every node that should have an agent has one that does not end, and no other
	// node has to get one. A node whose agent should end but still runs, such as after a taint,
	// counts as one that should have an agent.
	Settled bool
}

// Of returns the state of the agents. Agents that are not installed are a rollout without any.
func Of(o Observed) State {
	ds := o.DaemonSet
	if ds == nil {
		return State{Rolling: true}
	}
	counts := ds.Status
	s := State{Desired: int(counts.DesiredNumberScheduled)}
	pods := 0
	for _, pod := range o.Pods {
		if metav1.IsControlledBy(&pod, ds) {
			pods++
			s.add(pod, o.Now)
		}
	}
	behind := ds.Generation < o.Written || ds.DeletionTimestamp != nil || counts.ObservedGeneration != ds.Generation
	if !behind {
		s.addMissing(s.Desired+int(counts.NumberMisscheduled)-pods, o)
	}
	done := counts.UpdatedNumberScheduled
	if ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType { // those of an older template remain
		done = counts.CurrentNumberScheduled
	}
	s.Rolling = behind || done < counts.DesiredNumberScheduled ||
		int(counts.CurrentNumberScheduled) > len(s.Running) || o.Rolling && s.Left > 0
	allReady := len(s.Unready) == 0 && s.Missing == 0
	s.Counting = !s.Rolling && allReady && s.Ready >= s.Desired && int(counts.NumberReady) < s.Desired
	s.Ready = min(s.Ready, int(counts.NumberReady))
	s.Settled = !behind && s.nodes() == s.Desired+int(counts.NumberMisscheduled) && pods == len(s.Running)
	slices.SortFunc(s.Running, func(a, b corev1.Pod) int { return cmp.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	s.addAgents(o)
	slices.Sort(s.Unready)
	slices.Sort(s.Endless)
	s.Unready = slices.Compact(s.Unready)
	return s
}

// addAgents adds the agents of the running pods. While one may still publish its pools, the agents are
// counting.
func (s *State) addAgents(o Observed) {
	published := contract.PublishedPools(o.Published)
	for i := range s.Running {
		a := agentOf(&s.Running[i], published)
		s.Agents = append(s.Agents, a)
		if left := a.publishes(o.Now); left > 0 {
			s.Counting = s.Counting || !s.Rolling
			if s.Left == 0 || left < s.Left {
				s.Left = left
			}
		}
	}
}

func (s State) nodes() int {
	names := map[string]bool{}
	for _, pod := range s.Running {
		names[pod.Spec.NodeName] = true
	}
	return len(names)
}

// Endless reports whether a pod that is deleted is still there, Startup after it had to end. The API server
// sets that time when the pod is deleted.
func Endless(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) >= Startup
}

// Named returns the name of a pod and that of its node, for messages.
func Named(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "pod " + pod.Name
	}
	return "pod " + pod.Name + " on node " + pod.Spec.NodeName
}

// Complete reports whether there are agents and all of them are ready.
func (s State) Complete() bool { return !s.Rolling && s.Desired > 0 && s.Ready >= s.Desired }

func (s *State) add(pod corev1.Pod, now time.Time) {
	since, unready := contract.UnreadySince(&pod)
	ends := pod.DeletionTimestamp != nil
	if ends { // another takes its place once it is gone
		since, unready = pod.DeletionTimestamp.Time, true
	}
	if Endless(&pod, now) {
		s.Endless = append(s.Endless, Named(&pod))
	}
	if unready {
		s.Unready = append(s.Unready, cmp.Or(pod.Spec.NodeName, "pod "+pod.Name+", which has no node"))
		s.addUnready(since, now)
	} else {
		s.Ready++
	}
	if pod.Spec.NodeName != "" && !ends {
		s.Running = append(s.Running, pod)
	}
}

func (s *State) addMissing(n int, o Observed) {
	if n <= 0 {
		return
	}
	s.Missing, s.MissingSince = n, o.MissingSince
	if s.MissingSince.IsZero() {
		s.MissingSince = o.Now
	}
	s.addUnready(s.MissingSince, o.Now)
}

// addUnready adds an agent that has not been ready since then.
func (s *State) addUnready(since, now time.Time) {
	left := Startup - now.Sub(since)
	switch {
	case left <= 0:
		s.Failed = true
	case s.Left == 0 || left < s.Left:
		s.Left = left
	}
}
