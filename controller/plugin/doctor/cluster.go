package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

const (
	// ahead is how far in the future a time may be, for the seconds that a read takes.
	ahead = 30 * time.Second
	// behind is how old the lease of a ready node may be. A kubelet renews it every 10 seconds, and the
	// node is not ready after 40 to 50 seconds without.
	behind = 2 * time.Minute

	setClock = "keep the clocks with NTP: tokens, certificates and the grace of orphans depend on them"
)

// clocks compares the clocks of nodes and agents with the API server's.
func clocks(f *Facts) []finding {
	all := unread(f.NoClock, f.Leases.Unknown, f.Nodes.Unknown, f.Events.Unknown)
	if f.NoClock != "" {
		return all
	}
	for _, l := range f.Leases.Items {
		n := f.node(l.Name)
		if l.Spec.RenewTime == nil || n == nil || !contract.NodeReady(n) {
			continue
		}
		switch off := l.Spec.RenewTime.Sub(f.Now); {
		case off > ahead:
			all = append(all, finding{Warning, "node " + l.Name, "its clock is " + off.Round(time.Second).String() +
				" ahead of the API server's", setClock})
		case -off > behind:
			all = append(all, finding{Warning, "node " + l.Name, "it is ready, and its lease is " +
				(-off).Round(time.Second).String() +
				" old: its clock is behind the API server's", setClock})
		}
	}
	at := f.Now
	if f.eventsAt.After(at) {
		at = f.eventsAt
	}
	for i := range f.Events.Items {
		if e := &f.Events.Items[i]; cluster.Last(e).Sub(at) > ahead {
			all = append(all, finding{Warning, sourceOf(e), "it recorded an event that is in the future of the API server",
				setClock})
		}
	}
	return all
}

// sourceOf names who recorded an event.
func sourceOf(e *corev1.Event) string {
	switch {
	case e.Source.Host != "":
		return "node " + e.Source.Host
	case e.ReportingInstance != "":
		return e.ReportingInstance
	}
	return e.Source.Component
}

// The minor versions of Kubernetes 1 that this project supports, and the first with
// preventPodSchedulingIfMissing.
const (
	oldestMinor, newestMinor = 30, 37
	driverFirstMinor         = 37
)

// serverVersion checks the version of the API server, and says which of its features is worth having.
func serverVersion(f *Facts) []finding {
	v := f.Version.It
	if v == nil {
		return unread(f.Version.Unknown)
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	switch {
	case err != nil || v.Major != "1":
		return []finding{{Unknown, "", fmt.Sprintf("the API server's version is %s.%s", v.Major, v.Minor), ""}}
	case minor < oldestMinor || minor > newestMinor:
		return []finding{{Warning, "", fmt.Sprintf("Kubernetes 1.%d is none of the supported versions, 1.%d to 1.%d",
			minor, oldestMinor, newestMinor),
			"use a supported version of Kubernetes, or the release of this project that supports yours"}}
	case minor < driverFirstMinor:
		return nil
	}
	for _, d := range f.Drivers.Items {
		if f.serves(d.Name) && !prevents(&d) {
			return []finding{{OK, "CSIDriver " + d.Name, "preventPodSchedulingIfMissing is worth having: without it a pod may " +
				"be placed on a node whose agent has not started yet", "see manifests/examples/driver-first"}}
		}
	}
	return nil
}

func prevents(d *storagev1.CSIDriver) bool {
	return d.Spec.PreventPodSchedulingIfMissing != nil && *d.Spec.PreventPodSchedulingIfMissing
}

// controllerManager judges the measure of --measure.
func controllerManager(f *Facts) []finding {
	m := f.Measured
	switch {
	case m.Unknown != "":
		return unread(m.Unknown)
	case m.Lag > slow:
		return []finding{{Warning, "", fmt.Sprintf("kube-controller-manager was %s behind after %d claims were deleted at "+
			"once: its client is limited, and each claim takes four of its writes until it is bound",
			m.Lag.Round(100*time.Millisecond), m.Claims),
			"raise --kube-api-qps and --kube-api-burst of kube-controller-manager"}}
	}
	return []finding{{OK, "", fmt.Sprintf("kube-controller-manager was %s behind after %d claims were deleted at once",
		m.Lag.Round(time.Millisecond), m.Claims), ""}}
}
