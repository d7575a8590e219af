package doctor

import (
	"cmp"
	"fmt"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// eachReport calls of with each report, and returns its findings and what is unknown.
func (f *Facts) eachReport(of func(node string, r *inspect.Report) []finding) []finding {
	all := unread(f.Agents.Unknown, f.NoPools)
	for _, p := range f.Pools {
		if p.Problem != "" {
			all = append(all, finding{Unknown, "node " + p.Agent.Node, p.Problem, ""})
		}
		for i := range p.Reports {
			all = append(all, of(p.Agent.Node, &p.Reports[i])...)
		}
	}
	return all
}

func poolName(r *inspect.Report) string { return cmp.Or(r.Pool.Name, r.Pool.Path) }

// pools checks the state of the pools. An agent whose disk is not mounted has no report, so its
// metrics are read, too; where they are unknown, other checks have the reason.
func pools(f *Facts) (all []finding) {
	for i := range f.Metrics {
		for _, s := range f.Metrics[i].Samples(readyMetric) {
			if s.Value == 0 {
				all = append(all, finding{Critical, podOf(f.Metrics[i].Agent), "pool " + s.Labels["pool"] + " is not ready: " +
					"no volume is created, grown or deleted there", "see docs/runbooks/HPPPoolNotReady.md"})
			}
		}
	}
	return append(all, f.eachReport(func(node string, r *inspect.Report) (all []finding) {
		for _, p := range fleet.Problems(r) {
			all = append(all, finding{Warning, "node " + node, p, "kubectl hpp pools " + poolName(r)})
		}
		return all
	})...)
}

// poolSpace finds pools that are nearly full. The share is that of the alert HPPPoolAlmostFull.
func poolSpace(f *Facts) []finding {
	return f.eachReport(func(node string, r *inspect.Report) []finding {
		object, s := "node "+node, r.Space
		switch {
		case s.Total <= 0:
			return nil
		case s.Free < s.Total/50:
			return []finding{{Critical, object, fmt.Sprintf("the filesystem of pool %s is full: %s of %s are free", poolName(r),
				contract.Size(s.Free), contract.Size(s.Total)), "free space, or add a disk: writes of pods fail"}}
		case s.Obtainable() < s.Total/10:
			return []finding{{Warning, object, fmt.Sprintf("pool %s has %s of %s available to new volumes", poolName(r),
				contract.Size(s.Obtainable()), contract.Size(s.Total)), advice.MakeRoom}}
		}
		return nil
	})
}

const (
	readyMetric  = "kubevirt_hpp_pool_ready"
	quotaMetric  = "kubevirt_hpp_pool_quota_enforced"
	sharedMetric = "kubevirt_hpp_pool_path_shared_with_os"
	expiryMetric = "kubevirt_hpp_certificate_expiry_timestamp_seconds"

	turnOnQuotas = "turn quotas on: XFS with the mount option prjquota; ext4 with tune2fs -O project,quota and " +
		"prjquota; agents of hostPath claims alone also need manifests/examples/legacy-quotas"
)

// quotas finds pools that hold no volume to its size.
func quotas(f *Facts) []finding {
	if f.NoPools != "" {
		return f.quotasByMetrics()
	}
	return f.eachReport(func(node string, r *inspect.Report) []finding {
		if r.Pool.NoQuotas == "" {
			return nil
		}
		return []finding{{Warning, "node " + node, "pool " + poolName(r) + " enforces no quotas, so a volume can fill it: " +
			r.Pool.NoQuotas, turnOnQuotas}}
	})
}

func (f *Facts) quotasByMetrics() []finding {
	return f.eachMetrics(cluster.NodeAgent, func(m *cluster.Metrics) (all []finding) {
		for _, s := range m.Samples(quotaMetric) {
			if s.Value == 0 {
				all = append(all, finding{Warning, "node " + m.Agent.Node,
					"pool " + s.Labels["pool"] + " enforces no quotas, so a volume can fill it", turnOnQuotas})
			}
		}
		return all
	})
}

// eachMetrics calls of with the metrics of each agent of a process, or of all with the operator's if
// it is "".
func (f *Facts) eachMetrics(process string, of func(m *cluster.Metrics) []finding) []finding {
	all := unread(f.Agents.Unknown)
	for i := range f.Metrics {
		m := &f.Metrics[i]
		switch {
		case process != "" && m.Agent.Process != process:
		case m.Unknown != "":
			all = append(all, finding{Unknown, podOf(m.Agent), m.Unknown, ""})
		default:
			all = append(all, of(m)...)
		}
	}
	return all
}

// podOf names the node of an agent, or its pod if it has no node.
func podOf(a cluster.Agent) string {
	if a.Node == "" {
		return "pod " + a.Namespace + "/" + a.Pod
	}
	return "node " + a.Node
}

// systemDisk finds pools on the filesystem of the operating system that no quota holds back.
func systemDisk(f *Facts) []finding {
	return f.eachMetrics(cluster.NodeAgent, func(m *cluster.Metrics) (all []finding) {
		held := map[string]bool{}
		for _, s := range m.Samples(quotaMetric) {
			held[s.Labels["pool"]] = s.Value == 1
		}
		for _, s := range m.Samples(sharedMetric) {
			if pool := s.Labels["pool"]; s.Value == 1 && !held[pool] {
				all = append(all, finding{Warning, "node " + m.Agent.Node, "pool " + pool +
					" is on the disk of the operating system and enforces no quotas: its volumes can fill the node",
					"give new claims a pool on a disk of its own (docs/install.md#give-it-its-own-disk), or turn quotas on"})
			}
		}
		return all
	})
}

// abnormal finds volumes with a problem, as the alert HPPVolumeAbnormal does.
func abnormal(f *Facts) []finding {
	return f.eachMetrics(cluster.NodeAgent, func(m *cluster.Metrics) (all []finding) {
		for _, s := range m.Samples("kubevirt_hpp_volume_abnormal") {
			verdict, reason := Critical, s.Labels["reason"]
			if reason == "QuotaLost" || reason == "VolumeFull" { // its pods run
				verdict = Warning
			}
			if s.Value != 0 {
				all = append(all, finding{verdict, "claim " + s.Labels["namespace"] + "/" + s.Labels["persistentvolumeclaim"],
					"its volume in pool " + s.Labels["pool"] + " of node " + m.Agent.Node + " has the problem " + reason,
					"the event VolumeConditionAbnormal of its pods has the message"})
			}
		}
		return all
	})
}

// disks finds raw disks that are not what their PVs say, or cannot be wiped or offered.
func disks(f *Facts) []finding {
	states := map[string]finding{
		"gone": {Critical, "", "with a PV are gone", "attach them again: kubectl hpp disks has them"},
		"unclear": {Warning, "", "cannot be proven to be those of their PVs, and are left alone",
			"kubectl hpp disks has what confirms each"},
		"error": {Warning, "", "cannot be read, wiped or offered", "kubectl hpp disks has the reasons"},
	}
	return f.eachMetrics(cluster.DiskAgent, func(m *cluster.Metrics) (all []finding) {
		samples := m.Samples("kubevirt_hpp_devices")
		for _, s := range m.Samples("local_pv_provisioner_error_devices") { // all that agents of before the states have
			if len(samples) == 0 {
				s.Labels["state"] = "error"
				all = append(all, diskFinding(states, m, s)...)
			}
		}
		for _, s := range samples {
			all = append(all, diskFinding(states, m, s)...)
		}
		return all
	})
}

func diskFinding(states map[string]finding, m *cluster.Metrics, s cluster.Sample) []finding {
	one, bad := states[s.Labels["state"]]
	if !bad || !(s.Value > 0) {
		return nil
	}
	one.object, one.why = "node "+m.Agent.Node, events.Count(int(s.Value), "disk")+" "+one.why
	return []finding{one}
}

// soon is how long before its end a certificate is a finding, as of the alert HPPCertificateExpiring.
const soon = 7 * 24 * time.Hour

// certificates finds certificates of agents and operator that end soon.
func certificates(f *Facts) []finding {
	return f.eachMetrics("", func(m *cluster.Metrics) (all []finding) {
		for _, s := range m.Samples(expiryMetric) {
			ends := time.Unix(int64(s.Value), 0).UTC()
			verdict, word := Warning, "ends"
			if ends.Before(f.Now) {
				verdict, word = Critical, "ended"
			}
			if ends.Sub(f.Now) < soon {
				all = append(all, finding{verdict, "pod " + m.Agent.Namespace + "/" + m.Agent.Pod, fmt.Sprintf(
					"its certificate for %s %s at %s", s.Labels["use"], word, ends.Format(time.RFC3339)),
					"renew the certificate in its files or its Secret"})
			}
		}
		return all
	})
}
