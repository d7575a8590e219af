package cluster

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"k8s.io/client-go/discovery"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/permissions"
)

// operatorSelector selects the pods of the operator.
const operatorSelector = "name=hostpath-provisioner-operator"

// Operators lists the operator's pods in all namespaces.
func (r Reader) Operators(ctx context.Context) List[corev1.Pod] {
	return r.Pods(ctx, metav1.NamespaceAll, operatorSelector)
}

// AgentPods lists the agents' pods in all namespaces, as the API server has them.
func (r Reader) AgentPods(ctx context.Context) List[corev1.Pod] {
	return r.Pods(ctx, metav1.NamespaceAll, agentSelector)
}

// OperatorAgent describes a pod of the operator as far as Metrics needs it.
func OperatorAgent(pod *corev1.Pod) Agent {
	return Agent{Node: pod.Spec.NodeName, Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID,
		Container: "hostpath-provisioner-operator", Ready: contract.PodReady(pod), MetricsPort: "8443", MetricsTLS: true}
}

// Events lists the events of a namespace.
func (r Reader) Events(ctx context.Context, namespace string) List[corev1.Event] {
	return each("events", func(f func(*corev1.Event)) error {
		return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.Client.CoreV1().Events(namespace).List(ctx, o)
		}, f)
	})
}

// EventsAbout lists the events about objects of a kind, in all namespaces.
func (r Reader) EventsAbout(ctx context.Context, kind string) List[corev1.Event] {
	selector := fields.Set{"involvedObject.kind": kind}.AsSelector().String()
	return each("events", func(f func(*corev1.Event)) error {
		return pages(ctx, metav1.ListOptions{FieldSelector: selector},
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return r.Client.CoreV1().Events(metav1.NamespaceAll).List(ctx, o)
			}, f)
	})
}

// Leases lists the leases of the nodes, which their kubelets renew every 10 seconds.
func (r Reader) Leases(ctx context.Context) List[coordinationv1.Lease] {
	return each("leases in the namespace "+corev1.NamespaceNodeLease, func(f func(*coordinationv1.Lease)) error {
		return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, o)
		}, f)
	})
}

// Version reads the version of the API server.
func (r Reader) Version(ctx context.Context) Object[version.Info] {
	v, err := discovery.ToServerVersionInterfaceWithContext(r.Client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return Object[version.Info]{Unknown: unknown("get", "/version", err)}
	}
	return Object[version.Info]{It: v}
}

// Account is a service account of agents, with what it lacks.
type Account struct {
	Namespace, Name string
	// Missing are the permissions that the account needs and does not have.
	Missing []permissions.Permission
	// Unknown says why that could not be found out; "" if it was.
	Unknown string
}

// Accounts reviews what the service accounts of the agents may do, or those of the sidecars beside
// them.
func (r Reader) Accounts(ctx context.Context, of []Agent) (all []Account) {
	// Agents of one account may need different rules.
	asked := map[string]bool{}
	var agents []Agent
	for _, a := range of {
		key := strings.Join(append([]string{a.Namespace, a.ServiceAccount, a.Process}, a.Provisioners...), " ")
		if a.Container == "" || asked[key] {
			continue
		}
		asked[key] = true
		agents = append(agents, a)
	}
	all = make([]Account, len(agents))
	asks := make([]func(), len(agents))
	for i, a := range agents {
		asks[i] = func() { all[i] = r.account(ctx, a) }
	}
	Together(asks...)
	return all
}

func (r Reader) account(ctx context.Context, a Agent) Account {
	account := Account{Namespace: a.Namespace, Name: a.ServiceAccount}
	everywhere, here := rules(a)
	user := "system:serviceaccount:" + a.Namespace + ":" + a.ServiceAccount
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + a.Namespace, "system:authenticated"}
	missing := func(rules []permissions.Rule, namespace string) {
		lacks, err := permissions.Missing(rules, func(what *authorizationv1.ResourceAttributes) (bool, error) {
			what.Namespace = namespace
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, Groups: groups, ResourceAttributes: what}}
			answer, err := r.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return false, err
			}
			return answer.Status.Allowed, nil
		})
		if account.Missing = append(account.Missing, lacks...); err != nil {
			account.Unknown = unknown("create", "subjectaccessreviews", err)
		}
	}
	missing(everywhere, "")
	if account.Unknown == "" {
		missing(here, a.Namespace)
	}
	return account
}

// rules returns what an agent needs in the whole cluster and in its namespace.
func rules(a Agent) (everywhere, here []permissions.Rule) {
	switch {
	case a.Process == DiskAgent:
		return permissions.Disks()
	case a.Sidecar:
		return permissions.Sidecar()
	}
	everywhere = append(permissions.Provisioner(), permissions.Rule{Resource: "nodes", Verbs: "get"},
		permissions.Namespaces())
	if a.IsDriver() {
		more, namespaced := permissions.Driver()
		return append(everywhere, more...), namespaced
	}
	return everywhere, nil
}

// Namespaces returns the namespaces of agents and pods, each once.
func Namespaces(of []Agent, pods ...corev1.Pod) []string {
	var all []string
	for _, a := range of {
		all = append(all, a.Namespace)
	}
	for i := range pods {
		all = append(all, pods[i].Namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
