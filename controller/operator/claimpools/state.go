package claimpools

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// Result is what Keep found.
type Result struct {
	States []State
	// Left describes the mounts that are no longer wanted, and Kept those of them that stay because volumes use them.
	Left, Kept []string
	// Again is the time after which Keep is to be called again; 0 is after a change of an object.
	Again time.Duration
}

func (r *Result) soon(yes bool) {
	if yes {
		r.Again = again
	}
}

// left adds a mount that is still to be unmounted.
func (r *Result) left(what string) {
	r.Left = append(r.Left, what)
	r.soon(true)
}

// State is the state of a pool.
type State struct {
	v1beta1.StoragePoolStatus
	// Problems are for the user, Waits says what the pool waits for by itself.
	Problems, Waits []string

	pool  Pool
	bound int
}

func newState(p Pool, nodes int) State {
	return State{pool: p, StoragePoolStatus: v1beta1.StoragePoolStatus{Name: p.Name, Phase: v1beta1.Preparing, DesiredReady: nodes}}
}

// see adds a claim.
func (s *State) see(claim *corev1.PersistentVolumeClaim, problem string) {
	if problem != "" {
		s.Problems = append(s.Problems, problem)
	}
	if claim == nil {
		return
	}
	s.ClaimStatuses = append(s.ClaimStatuses, v1beta1.ClaimStatus{Name: claim.Name, Status: claim.Status})
	if claim.Status.Phase == corev1.ClaimBound {
		s.bound++
	} else if problem == "" {
		s.Waits = append(s.Waits, "claim "+claim.Name+" is not bound yet")
	}
}

// hold adds the Deployment, which is nil if there was none.
func (s *State) hold(claim *corev1.PersistentVolumeClaim, d *appsv1.Deployment, node Node) {
	switch {
	case claim == nil || claim.Status.Phase != corev1.ClaimBound:
	case d == nil || d.Status.ReadyReplicas == 0 || d.Status.ObservedGeneration != d.Generation:
		s.Waits = append(s.Waits, fmt.Sprintf("claim %s is not mounted on node %s yet; the log of Deployment %s has the reason", claim.Name, node.Name, claim.Name))
	case slices.Contains(node.Offered, s.Name):
		s.CurrentReady++
	default:
		s.Waits = append(s.Waits, "the agent on node "+node.Name+" does not offer the pool yet")
	}
}

// finish sets the phase.
func (s *State) finish() {
	slices.SortFunc(s.ClaimStatuses, func(a, b v1beta1.ClaimStatus) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case s.DesiredReady == 0 || s.bound < s.DesiredReady:
	case s.CurrentReady < s.DesiredReady:
		s.Phase = v1beta1.Mounting
	default:
		s.Phase = v1beta1.Ready
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
