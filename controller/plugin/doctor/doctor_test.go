package doctor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/permissions"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/fleet"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

const gib = 1 << 30

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// metrics are those of an agent whose pool has a disk of its own and enforces quotas, and whose
// certificate is renewed in time.
const metrics = `# TYPE kubevirt_hpp_pool_quota_enforced gauge
kubevirt_hpp_pool_quota_enforced{method="project",pool="local"} 1
# TYPE kubevirt_hpp_pool_path_shared_with_os gauge
kubevirt_hpp_pool_path_shared_with_os{pool="local"} 0
# TYPE kubevirt_hpp_certificate_expiry_timestamp_seconds gauge
kubevirt_hpp_certificate_expiry_timestamp_seconds{use="metrics"} 1.8e+09
`

// healthy are the facts of a cluster of two nodes with the CSI driver and the operator, in which
// there is nothing to find.
func healthy() *Facts {
	f := &Facts{Now: now}
	f.Drivers.Items = []storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner}}}
	for _, name := range []string{"node-01", "node-02"} {
		f.Nodes.Items = append(f.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		a := cluster.Agent{Node: name, Namespace: "hpp", Pod: "agent-" + name, UID: "uid", Container: "c", Image: "hpp:v1", Process: cluster.NodeAgent,
			Ready: true, Provisioners: []string{contract.CSIProvisioner}, Driver: contract.CSIProvisioner, ServiceAccount: "agents"}
		f.Agents.Items = append(f.Agents.Items, a)
		f.CSINodes.Items = append(f.CSINodes.Items, storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner}}}})
		f.Pools = append(f.Pools, agents.Pools{Agent: a, Reports: []inspect.Report{{Pool: inspect.Pool{Name: "local", Held: true, Quotas: "project"},
			Space: space.Space{Total: 100 * gib, Free: 60 * gib, Available: 50 * gib}}}})
		f.Metrics = append(f.Metrics, cluster.ParseMetrics(a, []byte(metrics)))
		f.Leases.Items = append(f.Leases.Items, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-8 * time.Second)))}})
	}
	f.DaemonSets.Items = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "csi"},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 2}}}
	f.Accounts = []cluster.Account{{Namespace: "hpp", Name: "agents"}}
	f.Operators.Items = []corev1.Pod{{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}
	f.Resources.Items = []hpp.HostPathProvisioner{{ObjectMeta: metav1.ObjectMeta{Name: "hpp"},
		Status: hpp.HostPathProvisionerStatus{Conditions: []hpp.Condition{{Type: hpp.Available, Status: corev1.ConditionTrue},
			{Type: hpp.Degraded, Status: corev1.ConditionFalse}}}}}
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	f.Classes.Items = []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "local", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: contract.CSIProvisioner, VolumeBindingMode: &delayed, Parameters: map[string]string{contract.StoragePool: "local"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Provisioner: "ebs.csi.aws.com"},
		{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: "rancher.io/local-path"}, // of another program
	}
	f.PVs.Items = []corev1.PersistentVolume{
		pv("pvc-1", contract.CSIProvisioner, "node-01"),
		pv("of-others", "ebs.csi.aws.com", "gone"),
	}
	f.Claims.Items = []corev1.PersistentVolumeClaim{claim("waits-for-pod", ""), claim("young", "node-01")}
	f.Claims.Items[1].CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
	f.Version.It = &version.Info{Major: "1", Minor: "34+"}
	f.Events.Items = []corev1.Event{{LastTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	return f
}

func pv(name, driver, node string) corev1.PersistentVolume {
	return corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: contract.TopologyNode, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}}
}

// claim returns a claim of an hour ago whose selected node is the node, unless that is "".
func claim(name, node string) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local")}}
	if node != "" {
		c.Annotations = map[string]string{contract.AnnSelectedNode: node}
	}
	return c
}

// found returns the rows that are not ok, a line each.
func found(rows []Row) string {
	var b strings.Builder
	for _, r := range rows {
		if r.Verdict != OK {
			fmt.Fprintf(&b, "%s %s: %s: %s => %s\n", r.Verdict, r.Check, r.Object, r.Why, r.Fix)
		}
	}
	return b.String()
}

func TestHealthy(t *testing.T) {
	rows := Run(healthy())
	if got := found(rows); got != "" {
		t.Errorf("found %s", got)
	}
	if len(rows) != len(checks) || Has(rows, Critical) || Has(rows, Warning) || Has(rows, Unknown) || len(Short(rows, false)) != 0 || len(Short(rows, true)) != len(checks) {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
}

// respond replaces a line of the first agent's metrics.
func (f *Facts) respond(old, new string) {
	f.Metrics[0] = cluster.ParseMetrics(f.Agents.Items[0], []byte(strings.Replace(metrics, old, new, 1)))
}

// BenchmarkDoctor measures the checks of a cluster whose nodes have 10 volumes each.
func BenchmarkDoctor(b *testing.B) {
	for _, count := range []int{100, 1000, 2000} {
		b.Run(fmt.Sprintf("%d nodes", count), func(b *testing.B) {
			f := healthy()
			node, agent, csi, pools, lease := f.Nodes.Items[0], f.Agents.Items[0], f.CSINodes.Items[0], f.Pools[0], f.Leases.Items[0]
			metrics := f.Metrics[0]
			f.Nodes.Items, f.Agents.Items, f.CSINodes.Items, f.Pools, f.Leases.Items, f.Metrics = nil, nil, nil, nil, nil, nil
			for i := range count {
				name := fmt.Sprintf("node-%05d", i)
				n, c, l := *node.DeepCopy(), *csi.DeepCopy(), *lease.DeepCopy()
				n.Name, agent.Node, c.Name, l.Name, pools.Agent.Node = name, name, name, name, name
				f.Nodes.Items, f.Agents.Items, f.CSINodes.Items = append(f.Nodes.Items, n), append(f.Agents.Items, agent), append(f.CSINodes.Items, c)
				f.Pools, f.Leases.Items, f.Metrics = append(f.Pools, pools), append(f.Leases.Items, l), append(f.Metrics, metrics)
				for v := range 10 {
					f.PVs.Items = append(f.PVs.Items, pv(fmt.Sprintf("pvc-%d-%d", i, v), contract.CSIProvisioner, name))
				}
			}
			for b.Loop() {
				Run(f)
			}
		})
	}
}

// disks adds an agent of raw disks with these metrics.
func (f *Facts) disks(samples string) {
	a := cluster.Agent{Node: "node-01", Namespace: "hpp", Pod: "disks-1", Container: "c", Image: "hpp:v1", Process: cluster.DiskAgent, Ready: true}
	f.Agents.Items = append(f.Agents.Items, a)
	f.Metrics = append(f.Metrics, cluster.ParseMetrics(a, []byte("# TYPE kubevirt_hpp_devices gauge\n# TYPE local_pv_provisioner_error_devices gauge\n"+samples)))
}

// lostClaim adds a claim whose PV is gone.
func (f *Facts) lostClaim(name, class string) {
	c := claim(name, "node-01")
	c.Spec.StorageClassName, c.Spec.VolumeName, c.Status.Phase = &class, "pvc-9", corev1.ClaimLost
	f.Claims.Items = append(f.Claims.Items, c)
}

// What the API server answers is judged by the time of its answer: agents that answer minutes later
// make no clock wrong, and no claim old.
func TestSlowAgentsMakeNoClockWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &cluster.Clock{}
		if _, err := clock.Wrap(dated{}).RoundTrip(nil); err != nil {
			t.Fatal(err)
		}
		young := claim("young", "node-01")
		young.CreationTimestamp = metav1.NewTime(time.Now().Add(-4 * time.Minute))
		f := healthy()
		f.Nodes.Items[0].ResourceVersion = "1"
		objects := []runtime.Object{&f.Nodes.Items[0], &f.Classes.Items[0], &young, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "node-01"},
			Spec:       coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Now()))}}}
		slow := func(context.Context, []cluster.Agent) ([]agents.Pools, string) {
			time.Sleep(160 * time.Second)
			return nil, "the agents did not answer"
		}
		read := Read(t.Context(), cluster.Reader{Client: apitest.Listing(fake.NewClientset(objects...)), Clock: clock}, slow, 10*time.Second)
		for _, r := range Run(read) {
			if (r.Check == "clocks" || r.Check == "claims") && r.Verdict != OK {
				t.Errorf("%+v", r)
			}
		}
	})
}

type dated struct{}

func (dated) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}}, nil
}

// A node that the DaemonSets leave out, as of the control plane, is no problem; one that they should
// serve is.
func TestNodesWithoutAgents(t *testing.T) {
	for taint, want := range map[string]bool{"node-role.kubernetes.io/control-plane": false, "node.kubernetes.io/disk-pressure": true, "": true} {
		f := healthy()
		n := *f.Nodes.Items[0].DeepCopy()
		n.Name = "cp-01"
		if taint != "" {
			n.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
		}
		f.Nodes.Items = append(f.Nodes.Items, n)
		for _, n := range fleet.Of(&f.Facts) {
			if n.Name == "cp-01" && (len(n.Problems) > 0) != want {
				t.Errorf("%q: %q", taint, n.Problems)
			}
		}
	}
}

// Each row spoils one fact of the healthy cluster, and has the one row that it makes: its beginning,
// and words of its reason and its fix.
func TestChecks(t *testing.T) {
	class := func(f *Facts) *storagev1.StorageClass { return &f.Classes.Items[0] }
	hostPath := func(f *Facts) *storagev1.StorageClass {
		f.Agents.Items[0].Provisioners = append(f.Agents.Items[0].Provisioners, contract.HostPathProvisioner)
		f.Classes.Items = append(f.Classes.Items, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "hostpath"}, Provisioner: contract.HostPathProvisioner})
		return &f.Classes.Items[len(f.Classes.Items)-1]
	}
	missing := func(message, kind, name string) corev1.Event {
		return corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "hpp"}, LastTimestamp: metav1.NewTime(now), Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: "uid"}}
	}
	for name, row := range map[string]struct {
		spoil func(f *Facts)
		want  []string
	}{
		"DaemonSet selects none": {func(f *Facts) { f.DaemonSets.Items[0].Status = appsv1.DaemonSetStatus{} },
			[]string{"warning agents: DaemonSet hpp/csi", "selects no node"}},
		"pods missing": {func(f *Facts) { f.DaemonSets.Items[0].Status.DesiredNumberScheduled = 3 },
			[]string{"critical agents: DaemonSet hpp/csi", "2 of 3 nodes", "describe daemonset csi"}},
		"agent not ready": {func(f *Facts) { f.Agents.Items[0].Ready, f.Agents.Items[0].Why = false, "it crashes" },
			[]string{"critical agents: node node-01", "it crashes", "describe pod agent-node-01"}},
		"agent of disks not ready": {func(f *Facts) {
			f.Agents.Items = append(f.Agents.Items, cluster.Agent{Node: "node-02", Pod: "disks", Namespace: "hpp", Process: cluster.DiskAgent, Why: "no ConfigMap"})
		}, []string{"critical agents: node node-02", "no ConfigMap"}},
		"node not ready": {func(f *Facts) { f.Nodes.Items[0].Status.Conditions = nil },
			[]string{"critical agents: node node-01", "cannot be reached"}},
		"operator degraded": {func(f *Facts) {
			f.Resources.Items[0].Status.Conditions[1] = hpp.Condition{Type: hpp.Degraded, Status: corev1.ConditionTrue, Reason: "PoolMissing", Message: "no disk"}
		}, []string{"critical operator: HostPathProvisioner hpp", "Degraded=True: PoolMissing: no disk"}},
		"no operator": {func(f *Facts) { f.Operators.Items = nil }, []string{"critical operator", "no pod of the operator is ready"}},
		"permission missing": {func(f *Facts) { f.Accounts[0].Missing = []permissions.Permission{"get events"} },
			[]string{"critical permissions: ServiceAccount hpp/agents", "get events", "several agents write"}},
		"no CSIDriver": {func(f *Facts) { f.Drivers.Items = nil },
			[]string{"critical driver: CSIDriver " + contract.CSIProvisioner, "wait for an attacher", "kubectl apply -k"}},
		"no CSIDriver, a sidecar": {func(f *Facts) {
			f.Drivers.Items = nil
			for i := range f.Agents.Items {
				f.Agents.Items[i].Sidecar, f.Agents.Items[i].Provisioners = true, nil
			}
		}, []string{"critical driver: CSIDriver " + contract.CSIProvisioner}},
		"not registered": {func(f *Facts) { f.CSINodes.Items[1].Spec.Drivers = nil },
			[]string{"critical kubelet: node node-02", "has not registered driver " + contract.CSIProvisioner, "kubelet-dir"}},
		"node without a CSINode": {func(f *Facts) { f.CSINodes.Items = f.CSINodes.Items[:1] },
			[]string{"critical kubelet: node node-02", "has not registered"}},
		"several images": {func(f *Facts) { f.Agents.Items[1].Image = "hpp:v2" },
			[]string{"warning versions", "hpp:v1 on node-01; hpp:v2 on node-02"}},
		"pool of no process": {func(f *Facts) { f.Pools[0].Reports[0].Pool.Held = false },
			[]string{"warning pools: node node-01", "owned by no process", "kubectl hpp pools local"}},
		"pool nearly full": {func(f *Facts) { f.Pools[0].Reports[0].Space.Available = 9 * gib },
			[]string{"warning space: node node-01", "9Gi of 100Gi available"}},
		"disk full": {func(f *Facts) { f.Pools[0].Reports[0].Space.Free = gib },
			[]string{"critical space: node node-01", "1Gi of 100Gi are free"}},
		"no quotas": {func(f *Facts) { f.Pools[0].Reports[0].Pool.NoQuotas = "it is mounted without prjquota" },
			[]string{"warning quotas: node node-01", "without prjquota", "tune2fs"}},
		"no quotas on both": {func(f *Facts) {
			f.Pools[0].Reports[0].Pool.NoQuotas, f.Pools[1].Reports[0].Pool.NoQuotas = "tmpfs", "tmpfs"
		}, []string{"warning quotas: node node-01, node node-02: pool local enforces no quotas"}},
		"certificate ends": {func(f *Facts) {
			f.respond(`{use="metrics"} 1.8e+09`, fmt.Sprintf(`{use="metrics"} %d`, now.Add(6*24*time.Hour).Unix()))
		},
			[]string{"warning certificates: pod hpp/agent-node-01", "for metrics ends at 2026-01-07T12:00:00Z"}},
		"certificate ended": {func(f *Facts) {
			f.respond(`{use="metrics"} 1.8e+09`, fmt.Sprintf(`{use="metrics"} %d`, now.Add(-time.Hour).Unix()))
		},
			[]string{"critical certificates: pod hpp/agent-node-01", "ended at"}},
		"bad parameter": {func(f *Facts) { class(f).Parameters["storagepool"] = "local" },
			[]string{"critical classes: class local", `parameters ["storagepool"]`, "delete it and create it again"}},
		"binds at once": {func(f *Facts) { class(f).VolumeBindingMode = nil }, []string{"critical classes: class local", "WaitForFirstConsumer", "warning claims: claim shop/waits-for-pod"}},
		"no such pool": {func(f *Facts) { class(f).Parameters[contract.StoragePool] = "fast" },
			[]string{"critical classes: class local", "no node has its pool fast; they have local"}},
		"pool without a name": {func(f *Facts) { class(f).Parameters = nil }, []string{"critical classes: class local", "its pool legacy"}},
		"class of nobody": {func(f *Facts) {
			f.Classes.Items = append(f.Classes.Items, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "hostpath"}, Provisioner: contract.HostPathProvisioner})
		}, []string{"critical classes: class hostpath", "no agent serves its provisioner", "PROVISION"}},
		"mount options": {func(f *Facts) { hostPath(f).MountOptions = []string{"ro"} }, []string{"critical classes: class hostpath", "mountOptions"}},
		"two defaults": {func(f *Facts) {
			f.Classes.Items[1].Annotations = map[string]string{"storageclass.beta.kubernetes.io/is-default-class": "true"}
		}, []string{"warning default-class", "local, cloud"}},
		"node gone": {func(f *Facts) { f.PVs.Items[0] = pv("pvc-1", contract.CSIProvisioner, "node-09") },
			[]string{"critical volumes: PV pvc-1", "node-09 does not exist", "docs/node-gone.md"}},
		"no agent on the node": {func(f *Facts) {
			node := *f.Nodes.Items[0].DeepCopy()
			node.Name = "node-03"
			f.Nodes.Items = append(f.Nodes.Items, node)
			f.PVs.Items[0] = pv("pvc-1", contract.CSIProvisioner, "node-03")
		}, []string{"critical volumes: PV pvc-1", "no agent on its node node-03"}},
		"selected node missing": {func(f *Facts) { f.Claims.Items = append(f.Claims.Items, claim("data", "node-09")) },
			[]string{"critical claims: claim shop/data", "selected-node names node node-09", "annotate pvc data volume.kubernetes.io/selected-node-"}},
		"annotated node missing": {func(f *Facts) {
			hostPath(f)
			c := claim("data", "")
			c.Spec.StorageClassName, c.Annotations = ptr.To("hostpath"), map[string]string{contract.AnnProvisionOnNode: "node-09"}
			f.Claims.Items = append(f.Claims.Items, c)
		}, []string{"critical claims: claim shop/data", "provisionOnNode names node node-09"}},
		"claim waits": {func(f *Facts) { f.Claims.Items = append(f.Claims.Items, claim("data", "node-01")) },
			[]string{"warning claims: claim shop/data", "more than 5m", "kubectl hpp explain data -n shop"}},
		"clock ahead": {func(f *Facts) { f.Leases.Items[0].Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(time.Minute))) },
			[]string{"warning clocks: node node-01", "1m0s ahead"}},
		"clock behind": {func(f *Facts) { f.Leases.Items[0].Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(-time.Hour))) },
			[]string{"warning clocks: node node-01", "1h0m0s old"}},
		"event of the future": {func(f *Facts) {
			f.Events.Items[0] = corev1.Event{LastTimestamp: metav1.NewTime(now.Add(time.Hour)), Source: corev1.EventSource{Host: "node-02"}}
		}, []string{"warning clocks: node node-02", "in the future"}},
		"old Kubernetes": {func(f *Facts) { f.Version.It.Minor = "29" }, []string{"warning kubernetes", "1.30 to 1.37"}},
		"odd version":    {func(f *Facts) { f.Version.It.Minor = "" }, []string{"unknown kubernetes", "1."}},
		"throttled": {func(f *Facts) { f.Measured = &Measured{Claims: 80, Lag: 2100 * time.Millisecond} },
			[]string{"warning controller-manager", "2.1s behind after 80 claims", "--kube-api-qps"}},
		"CSIDrivers unread": {func(f *Facts) { f.Drivers.Items, f.Drivers.Unknown = nil, "may not list csidrivers" }, []string{"unknown driver: : may not list csidrivers"}},
		"events unread":     {func(f *Facts) { f.Events.Unknown = "may not list events" }, []string{"unknown kubelet", "unknown priority-quota", "unknown clocks: : may not list events"}},
		"mount option of a filesystem": {func(f *Facts) { class(f).MountOptions = []string{"noatime", "ro,discard"} },
			[]string{"critical classes: class local", `mount options ["discard"]`, "delete it and create it again"}},
		"disks": {func(f *Facts) {
			f.disks(`kubevirt_hpp_devices{node="node-01",state="error"} 1
kubevirt_hpp_devices{node="node-01",state="gone"} 2
kubevirt_hpp_devices{node="node-01",state="unclear"} 1
kubevirt_hpp_devices{node="node-01",state="refused"} 4
`)
		}, []string{"critical disks: node node-01: 2 disks with a PV are gone", "warning disks: node node-01: 1 disk cannot be proven", "warning disks: node node-01: 1 disk cannot be read"}},
		"disks, an older agent": {func(f *Facts) { f.disks("local_pv_provisioner_error_devices{node=\"node-01\"} 3\n") }, []string{"warning disks: node node-01: 3 disks cannot be read"}},
		"disk of a node that is gone": {func(f *Facts) {
			p := pv("local-sdb", "", "")
			p.Labels = map[string]string{"local-pv-provisioner.cybozu.io/node": "gone"}
			p.Spec.CSI, p.Spec.Local = nil, &corev1.LocalVolumeSource{Path: "/dev/sdb"}
			p.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0] = corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}}
			f.PVs.Items = append(f.PVs.Items, p)
		}, []string{"critical volumes: PV local-sdb: its node gone does not exist"}},
		"quota lost": {func(f *Facts) {
			f.respond("", `# TYPE kubevirt_hpp_volume_abnormal gauge
kubevirt_hpp_volume_abnormal{pool="local",volume="pvc-1",namespace="shop",persistentvolumeclaim="data",reason="QuotaLost"} 1
kubevirt_hpp_volume_abnormal{pool="local",volume="pvc-2",namespace="shop",persistentvolumeclaim="logs",reason="DirectoryMissing"} 1
`)
		}, []string{"warning volume-health: claim shop/data", "QuotaLost", "critical volume-health: claim shop/logs"}},
		"lost claim": {func(f *Facts) { f.lostClaim("data", "local") }, []string{"critical claims: claim shop/data: its PV pvc-9 does not exist", "kubectl hpp explain data -n shop"}},
		"lost claim with its data": {func(f *Facts) {
			f.lostClaim("data", "of-others")
			f.Pools[1].Reports[0].Volumes = []inspect.Volume{{Name: "pvc-9", PV: "pvc-9"}}
		}, []string{"critical claims: claim shop/data: its PV pvc-9 does not exist; its data is there: directory pvc-9 of", "on node node-02"}},
		"lost claim of others": {func(f *Facts) { f.lostClaim("data", "cloud") }, nil},
		"hostPath PV without an agent": {func(f *Facts) {
			p := pv("pvc-h", "", "node-01")
			p.Annotations = map[string]string{contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnProvisionOnNode: "node-01"}
			p.Spec.CSI, p.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/var/hpvolumes/pvc-h"}
			f.PVs.Items = append(f.PVs.Items, p)
		}, []string{"warning volumes: PV pvc-h", "it neither grows nor is deleted"}},
		"not measured":     {func(f *Facts) { f.Measured = &Measured{Unknown: "may not"} }, []string{"unknown controller-manager", "may not"}},
		"no capacity":      {func(f *Facts) { f.Pools[0].Problem = "no answer" }, []string{"unknown pools: node node-01: no answer", "unknown space", "unknown quotas", "unknown classes: class local"}},
		"accounts unknown": {func(f *Facts) { f.Accounts[0].Unknown = "may not create subjectaccessreviews" }, []string{"unknown permissions: : may not create"}},
		"directory of the kubelet": {func(f *Facts) {
			f.Agents.Items[0].Ready, f.Agents.Items[0].Why = false, "it waits"
			f.Events.Items = append(f.Events.Items, missing("hostPath type check failed: /var/lib/kubelet/pods is not a directory", "Pod", "agent-node-01"))
		}, []string{"critical agents: node node-01", "critical kubelet: node node-01: the pod of its agent does not start: hostPath type check failed", "kubelet-dir"}},
		"insufficient quota": {func(f *Facts) {
			f.DaemonSets.Items[0].Status.DesiredNumberScheduled = 3
			f.Events.Items = append(f.Events.Items, missing("insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]", "DaemonSet", "csi"))
		}, []string{"critical agents: DaemonSet", "critical priority-quota: namespace hpp", "quota.yaml"}},
		"metrics unknown on both": {func(f *Facts) {
			f.Metrics[0].Unknown, f.Metrics[1].Unknown = "no answer", "no answer"
		}, []string{"unknown volume-health", "unknown system-disk: node node-01, node node-02: no answer", "unknown certificates: node node-01, node node-02"}},
		"system disk without quotas": {func(f *Facts) {
			f.respond("shared_with_os{pool=\"local\"} 0", "shared_with_os{pool=\"local\"} 1")
			text := strings.Replace(string(f.Metrics[0].Text), `pool="local"} 1`, `pool="local"} 0`, 1)
			f.Metrics[0] = cluster.ParseMetrics(f.Agents.Items[0], []byte(text))
		}, []string{"warning system-disk: node node-01", "can fill the node", "own-disk"}},
		"no quotas by metrics": {func(f *Facts) {
			f.NoPools, f.Pools = "--no-exec", nil
			f.Capacities.Items = []storagev1.CSIStorageCapacity{{StorageClassName: "local"}}
			f.respond(`method="project",pool="local"} 1`, `method="none",pool="local"} 0`)
		}, []string{"warning quotas: node node-01", "unknown pools: : --no-exec", "unknown space"}},
	} {
		f := healthy()
		row.spoil(f)
		got := found(Run(f))
		lines := 0
		for _, want := range row.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: found\n%swant %q", name, got, want)
			}
			if slices.ContainsFunc([]string{"warning ", "critical ", "unknown "}, func(v string) bool { return strings.HasPrefix(want, v) }) {
				lines++
			}
		}
		if n := strings.Count(got, "\n"); n != lines {
			t.Errorf("%s: found %d rows, want %d:\n%s", name, n, lines, got)
		}
	}
}

// A class without reports is judged by what is published for it.
func TestPoolByCapacity(t *testing.T) {
	for want, capacities := range map[string][]storagev1.CSIStorageCapacity{
		"":         {{StorageClassName: "local"}},
		"critical": {{StorageClassName: "other"}},
		"unknown":  nil,
	} {
		f := healthy()
		f.Pools, f.NoPools, f.Capacities.Items = nil, "may not run commands", capacities
		got := ""
		for _, r := range Run(f) {
			if r.Check == "classes" && r.Verdict != OK {
				got += string(r.Verdict)
			}
		}
		if got != want {
			t.Errorf("with capacities %v: %q, want %q", capacities, got, want)
		}
	}
}

// A pool on the system's disk that enforces quotas, and what is worth having, are no findings.
func TestNoFindings(t *testing.T) {
	f := healthy()
	f.respond("shared_with_os{pool=\"local\"} 0", "shared_with_os{pool=\"local\"} 1")
	f.Version.It.Minor = "37"
	f.Measured = &Measured{Claims: 80, Lag: time.Second}
	rows := Run(f)
	if got := found(rows); got != "" {
		t.Errorf("found %s", got)
	}
	var tips []string
	for _, r := range rows {
		if r.Why != "" {
			tips = append(tips, r.Why)
		}
	}
	if text := strings.Join(tips, "\n"); len(tips) != 2 || !strings.Contains(text, "preventPodSchedulingIfMissing") || !strings.Contains(text, "1s behind after 80 claims") {
		t.Errorf("tips %q", tips)
	}
}

// An empty cluster has no agents, and nothing else is said of them.
func TestNoAgents(t *testing.T) {
	f := &Facts{Now: now}
	f.Version.It = &version.Info{Major: "1", Minor: "34"}
	if got, want := found(Run(f)), "critical agents: : no agent of hostpath-provisioner runs in this cluster => install it: see docs/install.md\n"; got != want {
		t.Errorf("found %s", got)
	}
}

// What the user may not read is unknown in each check that needs it, and ok in none of them.
func TestUnread(t *testing.T) {
	f := &Facts{Now: now, NoClock: "no time"}
	f.Nodes.Unknown, f.Agents.Unknown, f.Capacities.Unknown, f.NoPools = "may not list nodes", "may not list pods", "x", "may not exec"
	f.CSINodes.Unknown, f.Classes.Unknown, f.PVs.Unknown, f.Claims.Unknown = "may not list csinodes", "c", "p", "c"
	f.DaemonSets.Unknown, f.Operators.Unknown, f.Resources.Unknown, f.Leases.Unknown = "d", "o", "r", "l"
	f.Version.Unknown, f.Events.Unknown, f.Drivers.Unknown = "v", "e", "may not list csidrivers"
	rows := Run(f)
	for _, r := range rows {
		if r.Verdict != Unknown {
			t.Errorf("%+v", r)
		}
	}
	if !Has(rows, Unknown) || Has(rows, Critical) || Has(rows, Warning) {
		t.Errorf("%+v", rows)
	}
	for _, r := range Short(rows, false) {
		if r.Why == "may not list nodes" && r.Check != "agents, volumes, claims, clocks" {
			t.Errorf("nodes are unknown in %q", r.Check)
		}
	}
}

func TestShortIsSorted(t *testing.T) {
	rows := []Row{{Check: "a", Verdict: OK}, {Check: "b", Verdict: Unknown, Why: "w"}, {Check: "c", Verdict: Warning}, {Check: "d", Verdict: Critical}}
	got := ""
	for _, r := range Short(rows, true) {
		got += r.Check
	}
	if got != "dcab" {
		t.Errorf("order %s", got)
	}
}

// Every page of a row, and every path that a row names, is in the repository.
func TestPagesExist(t *testing.T) {
	path := regexp.MustCompile(`(?:docs|manifests)/[A-Za-z0-9_./-]*[A-Za-z0-9]`)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range path.FindAllString(string(text), -1) {
			seen++
			if _, err := os.Stat(filepath.Join("../../..", name)); err != nil {
				t.Errorf("%s names %s: %v", source, name, err)
			}
		}
	}
	if seen < len(checks) {
		t.Errorf("%d paths, want one of each check at least", seen)
	}
}
