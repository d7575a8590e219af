package claimpools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/objects"
	"kubevirt.io/hostpath-provisioner/controller/operator/claimpools/release"
)

// Result is what Reconcile found.
type Result struct {
	States []State
	release.Result
	// Again is the time after which to call Reconcile again; 0 is after a change of an object.
	Again time.Duration
}

func (r *Result) pollIf(yes bool) {
	if yes {
		r.Again = pollInterval
	}
}

// State is the state of a pool.
type State struct {
	v1beta1.StoragePoolStatus
	// Problems are for the user to solve. The pool waits for Waits, which end without help.
	Problems, Waits []string

	pool  objects.Pool
	bound int
}

func newState(p objects.Pool, nodes int) State {
	return State{pool: p, StoragePoolStatus: v1beta1.StoragePoolStatus{Name: p.Name, Phase: v1beta1.Preparing,
		DesiredReady: nodes}}
}

// addClaim adds a claim.
func (s *State) addClaim(claim *corev1.PersistentVolumeClaim, problem string) {
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

// addMount adds the Deployment of the claim, nil if there is none.
func (s *State) addMount(claim *corev1.PersistentVolumeClaim, d *appsv1.Deployment, node objects.Node) {
	switch {
	case claim == nil || claim.Status.Phase != corev1.ClaimBound:
	case d == nil || !mounted(d):
		s.Waits = append(s.Waits, fmt.Sprintf("claim %s is not mounted on node %s yet; the log of Deployment %s has the "+
			"reason", claim.Name, node.Name, claim.Name))
	case offers(node, s.Name):
		s.CurrentReady++
	default:
		s.Waits = append(s.Waits, "the agent on node "+node.Name+" does not offer the pool yet")
	}
}

func offers(node objects.Node, pool string) bool {
	_, offered := node.Offered[pool]
	return offered
}

// setPhase sets the phase, after all claims and mounts were added.
func (s *State) setPhase() {
	slices.SortFunc(s.ClaimStatuses, func(a, b v1beta1.ClaimStatus) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case s.DesiredReady == 0 || s.bound < s.DesiredReady:
	case s.CurrentReady < s.DesiredReady:
		s.Phase = v1beta1.Mounting
	default:
		s.Phase = v1beta1.Ready
	}
}

// maxClaims is how many claims of a pool the status has. With 32 pools it is below half a MiB, and
// etcd accepts 1.5.
const maxClaims = 20

// Fit cuts the claims in the status of a pool to what an object can have, bound ones first; desiredReady
// and currentReady count all. It does nothing to fewer claims.
func Fit(p *v1beta1.StoragePoolStatus) {
	if len(p.ClaimStatuses) <= maxClaims {
		return
	}
	bound := func(c v1beta1.ClaimStatus) int {
		if c.Status.Phase == corev1.ClaimBound {
			return 1
		}
		return 0
	}
	claims := slices.Clone(p.ClaimStatuses)
	slices.SortStableFunc(claims, func(a, b v1beta1.ClaimStatus) int { return cmp.Compare(bound(a), bound(b)) })
	p.ClaimStatuses = claims[:maxClaims]
	slices.SortFunc(p.ClaimStatuses, func(a, b v1beta1.ClaimStatus) int { return strings.Compare(a.Name, b.Name) })
}
