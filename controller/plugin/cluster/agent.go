package cluster

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// agentSelector selects the pods of agents, of each form of installation and of the operator.
const agentSelector = "k8s-app in (hostpath-provisioner, hostpath-provisioner-csi, hostpath-provisioner-local-path, " +
	"hostpath-provisioner-disks)"

// The processes that run as agents.
const (
	NodeAgent = "agent"
	DiskAgent = "disks"
)

// Agent is the pod of an agent.
type Agent struct {
	Node      string    `json:"node"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       types.UID `json:"-"`
	// Container is the one in which commands are run; "" if there is none, or the pod is unmarked.
	Container string `json:"-"`
	Image     string `json:"image,omitempty"`
	// Process is NodeAgent or DiskAgent.
	Process string `json:"process"`
	Ready   bool   `json:"ready"`
	// Why is what keeps the pod from being ready, as far as its status has it.
	Why string `json:"why,omitempty"`
	// Unmarked says that no command is run in the pod, and why; "" if it has the mark of an agent.
	Unmarked string `json:"unmarked,omitempty"`
	// Provisioners are those whose claims the agent serves, by the settings in its pod.
	Provisioners []string `json:"provisioners,omitempty"`

	// PVDir is the directory of the pool for hostPath claims; "" if the settings in the pod have none.
	PVDir string `json:"-"`

	ServiceAccount string `json:"-"`
	// placement has the rules of the DaemonSet that keep its pods from nodes.
	placement corev1.PodSpec
	// Driver is the name of the CSI driver; "" if the pod has no socket for one.
	Driver string `json:"-"`
	// Sidecar reports whether the standard sidecar serves the claims of the driver.
	Sidecar bool `json:"-"`
	// MetricsPort is where the pod serves metrics, with TLS or without; NoMetrics says why it is not
	// known.
	MetricsPort string `json:"-"`
	MetricsTLS  bool   `json:"-"`
	NoMetrics   string `json:"-"`
}

// Serves reports whether the agent serves the claims of a provisioner.
func (a *Agent) Serves(provisioner string) bool { return slices.Contains(a.Provisioners, provisioner) }

// IsDriver reports whether the agent serves claims of the CSI driver itself.
func (a *Agent) IsDriver() bool { return a.Driver != "" && !a.Sidecar && a.Serves(a.Driver) }

// LeavesOut reports whether the DaemonSet of the agent runs no pod on a node, because of the node's
// labels, or of a taint that is not one of a passing condition.
func (a *Agent) LeavesOut(n *corev1.Node) bool {
	for key, value := range a.placement.NodeSelector {
		if n.Labels[key] != value {
			return true
		}
	}
	_, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, a.placement.Tolerations,
		func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/")
		}, true)
	return repelled
}

// Agents lists the agents' pods in all namespaces, by node and name.
func (r Reader) Agents(ctx context.Context) List[Agent] {
	pods := r.Pods(ctx, metav1.NamespaceAll, agentSelector)
	agents := List[Agent]{Unknown: pods.Unknown}
	for i := range pods.Items {
		if pod := &pods.Items[i]; contract.OfDaemonSet(pod) && !contract.PodEnded(pod) {
			agents.Items = append(agents.Items, agentOf(pod))
		}
	}
	slices.SortFunc(agents.Items, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return agents
}

// ExplainedAgents lists the agents that keep accepts, all if it is nil. It adds to the first that
// are not ready what the events of their pods have: why a container cannot start is in no status.
func (r Reader) ExplainedAgents(ctx context.Context, keep func(Agent) bool) List[Agent] {
	agents := r.Agents(ctx)
	if keep != nil {
		agents.Items = slices.DeleteFunc(agents.Items, func(a Agent) bool { return !keep(a) })
	}
	r.explain(ctx, agents.Items)
	return agents
}

// agentOf describes the pod of an agent.
func agentOf(pod *corev1.Pod) Agent {
	a := Agent{Node: pod.Spec.NodeName, Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Process: NodeAgent,
		Ready: contract.PodReady(pod), ServiceAccount: pod.Spec.ServiceAccountName,
		placement: corev1.PodSpec{NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations}}
	if !a.Ready {
		a.Why = whyNotReady(pod)
	}
	c := contract.AgentContainer(&pod.Spec)
	if c == nil {
		return a
	}
	a.Image = c.Image
	set := func(flag, variable string) (string, bool) { return contract.AgentSetting(c, flag, variable) }
	setting := func(flag, variable string) string {
		value, _ := set(flag, variable)
		return value
	}
	switch {
	case !ofNode(&pod.Spec): // whatever its marks are: agents of all versions have one
		a.Unmarked = rootless
	case pod.Annotations[contract.AnnAgent] == "":
		a.Unmarked = unmarked
	default:
		a.Container = c.Name
	}
	if slices.Contains(slices.Concat(c.Command, c.Args), "disks") {
		a.Process = DiskAgent
		a.metricsOf(set, false)
		return a
	}
	a.Provisioners = contract.ServedClaims(c)
	if dir := setting("pv-dir", "PV_DIR"); dir != "" && !strings.HasPrefix(dir, "[") {
		a.PVDir = path.Join("/", dir)
	}
	if setting("endpoint", "HPP_ENDPOINT") != "" {
		a.Driver = cmp.Or(setting("drivername", "HPP_DRIVERNAME"), contract.CSIProvisioner)
		a.Sidecar = setting("provision", "PROVISION") == "" && setting("compat", "COMPAT") == ""
	}
	a.metricsOf(set, a.Sidecar)
	return a
}

// ServedBy returns the provisioners whose claims a pod of an agent serves, by the settings in it.
// It is empty for an agent of raw disks.
func ServedBy(pod *corev1.PodSpec) []string { return agentOf(&corev1.Pod{Spec: *pod}).Provisioners }

// unmarked is about a pod with the labels of an agent and without contract.AnnAgent. The provisioner
// of the project before has the same labels, container and path, and no commands: a command would be a
// second provisioner.
const unmarked = "no agent that this plugin knows: another program, or an agent from before the mark " +
	contract.AnnAgent + ", so no command is run in it"

// rootless is about a pod with the marks of an agent and without a directory of its node. Tenants may set
// labels, annotations and owners of their pods, and a command of theirs would answer for the node; where
// they may mount directories of nodes, they are root there anyway.
const rootless = "no agent that this plugin knows: it has no directory of its node (hostPath), as each agent " +
	"has, so no command is run in it"

// ofNode reports whether a pod has a directory of its node.
func ofNode(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
}

// CheckFails begins Agent.Why of a pod that runs and is not ready.
const CheckFails = "the readiness check"

// whyNotReady returns what the status of a pod has about why it is not ready.
func whyNotReady(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	for _, s := range pod.Status.ContainerStatuses {
		last := ""
		if t := s.LastTerminationState.Terminated; t != nil {
			last = lastWords(t.Message)
		}
		switch w, t := s.State.Waiting, s.State.Terminated; {
		case w != nil && last != "":
			return fmt.Sprintf("container %s: %s; it ended with: %s", s.Name, w.Reason, last)
		case w != nil:
			return strings.TrimSuffix(fmt.Sprintf("container %s: %s: %s", s.Name, w.Reason, w.Message), ": ")
		case t != nil:
			return fmt.Sprintf("container %s ended with code %d: %s", s.Name, t.ExitCode, lastWords(t.Message))
		case !s.Ready:
			return CheckFails + " of container " + s.Name + " fails"
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return "it is not scheduled: " + c.Message
		}
	}
	return "it has not started yet"
}

// logged begins each line of klog.
var logged = regexp.MustCompile(`^[IWEF][0-9]{4} `)

// lastWords returns why a container ended. The kubelet takes the end of its log for that: what the program
// logged before is left out, if it said more.
func lastWords(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	if said := slices.DeleteFunc(slices.Clone(lines), logged.MatchString); len(said) > 0 {
		lines = said
	}
	return strings.Join(lines, "\n")
}

// mostExplained bounds how many agents that are not ready explain asks about.
const mostExplained = 10

func (r Reader) explain(ctx context.Context, agents []Agent) {
	var asks []func()
	for i := range agents {
		a := &agents[i]
		if a.Ready || len(asks) == mostExplained {
			continue
		}
		asks = append(asks, func() {
			events := r.EventsOf(ctx, "Pod", a.Namespace, a.Pod, a.UID)
			if !events.Known() {
				a.Why += "; its events are unknown: " + events.Unknown
			}
			for _, e := range events.Items {
				if e.Type == corev1.EventTypeWarning && strings.HasPrefix(e.Reason, "Failed") {
					a.Why += ": " + strings.TrimSpace(e.Message)
					return
				}
			}
		})
	}
	Together(asks...)
}
