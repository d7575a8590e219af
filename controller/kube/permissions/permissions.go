// Package permissions lists what the API server must allow the agents, as the ClusterRoles and
// Roles of the manifests do, and finds what it does not allow.
package permissions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// Permission is a verb and the resource that it is for, as in "get nodes".
type Permission string

const (
	// PatchPVs is a permission that several parts of the agent do without.
	PatchPVs Permission = "patch persistentvolumes"
	// patchClaims gives a claim back to the scheduler. updateClaims, which an older ClusterRole
	// has, suffices, too.
	patchClaims  Permission = "patch persistentvolumeclaims"
	updateClaims Permission = "update persistentvolumeclaims"
)

// Rule is what a role allows for one resource. An object's name restricts it to that object.
type Rule struct {
	Group, Resource, Object string
	// Verbs are separated by spaces.
	Verbs string
}

// Provisioner returns what an agent that serves claims needs in the whole cluster, besides get nodes,
// without which it does not start, Namespaces and Count. It equals the ClusterRole of manifests/legacy.
func Provisioner() []Rule {
	return []Rule{
		{"", "persistentvolumes", "", "get list watch create patch delete"},
		{"", "persistentvolumeclaims", "", "get list watch update patch"},
		{"", "persistentvolumeclaims/status", "", "patch"},
		{"", "namespaces", metav1.NamespaceSystem, "get"},
		{"", "events", "", "get create patch"},
		{"storage.k8s.io", "storageclasses", "", "list watch"},
	}
}

// Driver returns what an agent that serves claims of the CSI driver needs besides Provisioner in the
// whole cluster, and what it needs in its own namespace. They equal the roles of manifests/csi.
func Driver() (cluster, namespace []Rule) {
	return []Rule{
			{"storage.k8s.io", "csinodes", "", "get"},
			{"storage.k8s.io", "csidrivers", contract.CSIProvisioner, "get"},
		}, []Rule{
			{"storage.k8s.io", "csistoragecapacities", "", "get list watch create update delete"},
			{"", "pods", "", "get"},
			Count("hostpath-provisioner-csi"),
		}
}

// Count returns what lets an agent count the agents of its DaemonSet, which has that name. It is in
// the roles of every form, and no agent waits for it.
func Count(daemonSet string) Rule { return Rule{"apps", "daemonsets", daemonSet, "list"} }

// Namespaces returns what lets an agent record the UID of a claim's namespace. It is in the roles of every
// form with a provisioner, and no agent waits for it.
func Namespaces() Rule { return Rule{"", "namespaces", "", "get"} }

// Sidecar returns what the standard provisioner sidecar needs, which serves the claims of a driver
// beside the agent. They equal the roles of manifests/csi-sidecars.
func Sidecar() (cluster, namespace []Rule) {
	return []Rule{
			{"", "persistentvolumes", "", "get list watch create patch delete"},
			{"", "persistentvolumeclaims", "", "get list watch update"},
			{"storage.k8s.io", "storageclasses", "", "get list watch"},
			{"", "events", "", "create patch"},
		}, []Rule{
			{"storage.k8s.io", "csistoragecapacities", "", "get list watch create update delete"},
			{"", "pods", "", "get"},
		}
}

// Disks returns what a process that offers raw disks needs in the whole cluster and in its own
// namespace. They equal the roles of manifests/local-pv.
func Disks() (cluster, namespace []Rule) {
	return []Rule{
			{"", "persistentvolumes", "", "get list watch create delete"},
			{"", "persistentvolumeclaims", "", "list"},
			{"", "nodes", "", "get list watch"},
			{"", "events", "", "create"},
		}, []Rule{
			{"", "configmaps", "", "get list watch"},
			{"coordination.k8s.io", "leases", "", "get list create delete"},
		}
}

// without has the consequence of each missing permission. Without a permission that it does not
// list, the agent does not serve claims, or does not remove volumes.
var without = map[Permission]string{
	PatchPVs: "new PVs get no finalizer, so a PV that is deleted by hand leaves its volume behind; " +
		"a PV that has the finalizer stays Terminating; volumes do not grow and are not migrated; " +
		"PVs of older provisioners are not labelled, so all PVs of the cluster are watched",
	"patch persistentvolumeclaims/status": "volumes do not grow",
	patchClaims:                           "claims that do not fit are not given back to the scheduler",
	updateClaims:                          "the same",
	"get namespaces kube-system":          "the cluster's identity is unknown, so orphans are not removed",
	"get namespaces": "a namespace that was made again is told apart by its time alone, so recover and undelete " +
		"may leave a volume, or plan it for another tenant",
	"get nodes":    "the agent does not start",
	"get csinodes": "a driver whose registration is lost is not registered again",
	"get csidrivers " + contract.CSIProvisioner: "a CSIDriver that is deleted is not reported",
	"get events":    "several agents write the event of a claim that names no node",
	"create events": "refusals are logged only",
	"patch events":  "repeated events are not counted",
}

// Missing returns the permissions of the rules that may does not allow. It stops at the first error
// of may.
func Missing(rules []Rule, may func(*authorizationv1.ResourceAttributes) (bool, error)) ([]Permission, error) {
	missing, asked := []Permission{}, []Permission{}
	for _, r := range rules {
		resource, part, _ := strings.Cut(r.Resource, "/")
		for verb := range strings.FieldsSeq(r.Verbs) {
			allowed, err := may(&authorizationv1.ResourceAttributes{
				Group: r.Group, Resource: resource, Subresource: part, Name: r.Object, Verb: verb})
			if err != nil {
				return nil, err
			}
			asked = append(asked, of(verb, r))
			if !allowed {
				missing = append(missing, of(verb, r))
			}
		}
	}
	if slices.Contains(asked, patchClaims) && slices.Contains(asked, updateClaims) {
		missing = withoutAlternatives(missing)
	}
	return missing, nil
}

func of(verb string, r Rule) Permission {
	return Permission(strings.TrimSpace(verb + " " + r.Resource + " " + r.Object))
}

// Lacks returns the error of missing permissions, with the consequence of each.
func Lacks(missing []Permission) error {
	var words []string
	for _, p := range missing {
		off, ok := without[p]
		if !ok {
			off = "claims are not served as they should be"
		}
		words = append(words, fmt.Sprintf("%s (%s)", p, off))
	}
	return errors.New("permissions are missing: " + strings.Join(words, ", ") + "; apply the ClusterRole of this version")
}

// withoutAlternatives removes patchClaims and updateClaims from missing if only one of them is in
// it.
func withoutAlternatives(missing []Permission) []Permission {
	either := func(p Permission) bool { return p == patchClaims || p == updateClaims }
	if slices.Contains(missing, patchClaims) && slices.Contains(missing, updateClaims) {
		return missing
	}
	return slices.DeleteFunc(missing, either)
}
