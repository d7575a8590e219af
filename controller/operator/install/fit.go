package install

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

const (
	// maxMessage bounds the message of a condition. Six conditions have the same one.
	maxMessage = 4 << 10
	// maxClaims is how many claims of a pool the status has. With 32 pools it is below half a MiB, and
	// etcd accepts 1.5.
	maxClaims = 20
)

// fit cuts a status to what an object can have: the messages, and of each pool the claims. Those that are
// not bound come first; desiredReady and currentReady count all.
func fit(s *v1beta1.HostPathProvisionerStatus) {
	for i := range s.Conditions {
		s.Conditions[i].Message = events.Fit(s.Conditions[i].Message, maxMessage)
	}
	for i := range s.StoragePoolStatuses {
		p := &s.StoragePoolStatuses[i]
		if len(p.ClaimStatuses) <= maxClaims {
			continue
		}
		unbound := func(c v1beta1.ClaimStatus) int {
			if c.Status.Phase == corev1.ClaimBound {
				return 1
			}
			return 0
		}
		claims := slices.Clone(p.ClaimStatuses)
		slices.SortStableFunc(claims, func(a, b v1beta1.ClaimStatus) int { return unbound(a) - unbound(b) })
		p.ClaimStatuses = claims[:maxClaims]
		slices.SortFunc(p.ClaimStatuses, func(a, b v1beta1.ClaimStatus) int { return strings.Compare(a.Name, b.Name) })
	}
}
