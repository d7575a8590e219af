package agentstatus

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Agent is an agent on a node, and which pools it has open.
type Agent struct {
	Node string
	// Ready is set if its pod is ready.
	Ready bool
	// Pools are what it published. There is no list before it has.
	Pools contract.NodePools

	// older is set if it is of a version that does not publish, and is ready only with its pools.
	older bool
	since time.Time // when it became ready
}

// agentOf returns the agent of the pod, with what was published of its node.
func agentOf(pod *corev1.Pod, published map[string]contract.NodePools) Agent {
	a := Agent{Node: pod.Spec.NodeName, Ready: contract.PodReady(pod), older: !contract.PublishesPools(pod)}
	if n, found := published[a.Node]; found && n.Pod == pod.Name {
		a.Pools = n
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			a.since = c.LastTransitionTime.Time
		}
	}
	return a
}

// Opens reports whether the agent is ready and has the pool of that name open.
func (a Agent) Opens(pool string) bool {
	p, _ := a.Pools.Named(pool)
	return a.Ready && (a.older || p.Open)
}

// publishes returns for how long the agent may still take to publish its pools, 0 if it has, or is
// not ready.
func (a Agent) publishes(now time.Time) time.Duration {
	if !a.Ready || a.older || a.Pools.Pools != nil {
		return 0
	}
	return max(0, Startup-now.Sub(a.since))
}

// Closed is a pool that the agent of a node does not have open.
type Closed struct {
	Pool, Node, Why string
	// Replaced is set if an earlier agent of the node had it open.
	Replaced bool
}

func (c Closed) String() string {
	switch {
	case c.Pool == "":
		return fmt.Sprintf("the agent on node %s does not publish its pools: %s", c.Node, c.Why)
	case c.Replaced:
		return fmt.Sprintf("pool %s on node %s was open before its agent was replaced, and is not since: %s",
			c.Pool, c.Node, c.Why)
	}
	return fmt.Sprintf("pool %s is not open on node %s: %s", c.Pool, c.Node, c.Why)
}

// Closed returns the pools that ready agents do not have open, in the order of their nodes, but for
// those for which except returns true.
func (s State) Closed(except func(pool string) bool) (all []Closed) {
	for _, a := range s.Agents {
		if !a.Ready || a.older {
			continue
		}
		if a.Pools.Pools == nil {
			all = append(all, Closed{Node: a.Node, Why: "its log has the reason"})
		}
		for _, p := range a.Pools.Pools {
			if !p.Open && !except(p.Name) {
				all = append(all, Closed{Pool: p.Name, Node: a.Node, Why: cmp.Or(p.Why, "the agent does not say why"),
					Replaced: p.OpenIn != "" && p.OpenIn != a.Pools.Pod})
			}
		}
	}
	return all
}

// Have returns on how many nodes there is, or should be, a pool of that name: agents publish none of
// other nodes.
func (s State) Have(pool string) (nodes int) {
	for _, a := range s.Agents {
		if _, has := a.Pools.Named(pool); has {
			nodes++
		}
	}
	return nodes
}

// Open returns on how many nodes the pool is open.
func (s State) Open(pool string) (nodes int) {
	for _, a := range s.Agents {
		if a.Opens(pool) {
			nodes++
		}
	}
	return nodes
}
