package doctor

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/version"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
)

// Facts are what the checks are functions of.
type Facts struct {
	// Now is the API server's time when it had answered with the leases, or this computer's if NoClock
	// has the reason. What was read later is younger.
	Now     time.Time
	NoClock string

	fleet.Facts
	CSINodes   cluster.List[storagev1.CSINode]
	Drivers    cluster.List[storagev1.CSIDriver]
	Classes    cluster.List[storagev1.StorageClass]
	PVs        cluster.List[corev1.PersistentVolume]
	Claims     cluster.List[corev1.PersistentVolumeClaim]
	DaemonSets cluster.List[appsv1.DaemonSet]
	Operators  cluster.List[corev1.Pod]
	Resources  cluster.List[hpp.HostPathProvisioner]
	Leases     cluster.List[coordinationv1.Lease]
	Version    cluster.Object[version.Info]
	// Events are those of the namespaces of agents.
	Events cluster.List[corev1.Event]
	// eventsAt is Now for the events; the zero time if it is the same.
	eventsAt time.Time
	// Metrics are those of agents and operator, and Accounts the agents' service accounts.
	Metrics  []cluster.Metrics
	Accounts []cluster.Account
	// Measured is nil if the controller-manager was not measured.
	Measured *Measured

	by *index
}

// Read reads the facts. It waits for the metrics of each agent as long as timeout.
func Read(ctx context.Context, r cluster.Reader, ask agents.AskPools, timeout time.Duration) *Facts {
	f := &Facts{}
	cluster.Together(
		func() { f.Nodes = r.Nodes(ctx) },
		func() { f.Capacities = r.Capacities(ctx) },
		func() { f.CSINodes = r.CSINodes(ctx) },
		func() { f.Drivers = r.Drivers(ctx) },
		func() { f.Classes = r.Classes(ctx) },
		func() { f.PVs = r.PVs(ctx) },
		func() { f.Claims = r.Claims(ctx, "") },
		func() { f.Resources = r.Resources(ctx) },
		func() {
			f.Leases = r.Leases(ctx)
			f.Now, f.NoClock = r.Now()
		},
		func() { f.Version = r.Version(ctx) },
		func() { f.readAgents(ctx, r, ask, timeout) },
	)
	return f
}

func (f *Facts) readAgents(ctx context.Context, r cluster.Reader, ask agents.AskPools, timeout time.Duration) {
	cluster.Together(
		func() { f.Agents = r.ExplainedAgents(ctx, nil) },
		func() { f.DaemonSets = r.DaemonSets(ctx) },
		func() { f.Operators = r.Operators(ctx) },
	)
	served := slices.Clone(f.Agents.Items)
	for i := range f.Operators.Items {
		served = append(served, cluster.OperatorAgent(&f.Operators.Items[i]))
	}
	cluster.Together(
		func() { f.Pools, f.NoPools = ask(ctx, f.Agents.Items) },
		func() { f.Metrics = r.AllMetrics(ctx, served, timeout) },
		func() { f.Accounts = r.Accounts(ctx, f.Agents.Items) },
		func() {
			namespaces := cluster.Namespaces(f.Agents.Items)
			for i := range f.DaemonSets.Items {
				namespaces = append(namespaces, f.DaemonSets.Items[i].Namespace)
			}
			f.Events = eventsIn(ctx, r, namespaces)
			f.eventsAt, _ = r.Now()
		},
	)
}

// eventsIn lists the events of the namespaces.
func eventsIn(ctx context.Context, r cluster.Reader, namespaces []string) (all cluster.List[corev1.Event]) {
	seen := map[string]bool{}
	for _, n := range namespaces {
		if seen[n] {
			continue
		}
		seen[n] = true
		events := r.Events(ctx, n)
		if all.Items = append(all.Items, events.Items...); !events.Known() {
			all.Unknown = events.Unknown + " in the namespace " + n
		}
	}
	return all
}
