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
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	hpp "kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// read reads the facts about a cluster, as the command does.
func read(t testing.TB, c *scene.Cluster) *Facts {
	t.Helper()
	reader, ask := c.Reader(t)
	return Read(t.Context(), reader, ask, time.Minute)
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

// serves replaces a part of what the agent of node-01 serves as metrics.
func serves(old, new string) func(*scene.Cluster) {
	return func(c *scene.Cluster) { c.Metrics["agent-node-01"] = strings.Replace(scene.Metrics, old, new, 1) }
}

func devices(samples string) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		c.Metrics["disks-node-01"] = "# TYPE kubevirt_hpp_devices gauge\n# TYPE local_pv_provisioner_error_devices gauge\n" + samples
	}
}

// claim adds a claim of an hour ago.
func claim(c *scene.Cluster, class string, annotations map[string]string) *corev1.PersistentVolumeClaim {
	claim := scene.Claim("shop", "late", "")
	claim.Spec.StorageClassName, claim.Annotations = &class, annotations
	c.Add(claim)
	return claim
}

// lost adds a claim whose PV is gone.
func lost(class string) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		late := claim(c, class, map[string]string{contract.AnnSelectedNode: "node-01"})
		late.Spec.VolumeName, late.Status.Phase = "pvc-9", corev1.ClaimLost
	}
}

// hostPath adds a class of the hostPath provisioner, which the agents serve.
func hostPath(c *scene.Cluster) *storagev1.StorageClass {
	c.Provision("hostpath,csi")
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "hostpath"}, Provisioner: contract.HostPathProvisioner}
	c.Add(class)
	return class
}

// report changes what the agent of node-01 reports about its pool.
func report(edit func(r *inspect.Report)) func(*scene.Cluster) {
	return func(c *scene.Cluster) { edit(&c.Pools["node-01"][0]) }
}

// starts makes the agent of node-01 one that has not started.
func starts(c *scene.Cluster) *corev1.Pod {
	p := c.Agent("node-01")
	p.Status = corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}}
	return p
}

func renewed(after time.Duration) func(*scene.Cluster) {
	return func(c *scene.Cluster) {
		scene.Get[coordinationv1.Lease](c, "node-01").Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(after)))
	}
}

func class(edit func(c *storagev1.StorageClass)) func(*scene.Cluster) {
	return func(c *scene.Cluster) { edit(c.Class("local")) }
}

// changes are rows that each spoil one thing of the healthy cluster, with the rows that doctor then has:
// their beginnings, and words of their reasons and fixes.
var changes = map[string]struct {
	spoil func(c *scene.Cluster)
	want  []string
}{
	"DaemonSet selects none": {func(c *scene.Cluster) { scene.Get[appsv1.DaemonSet](c, "agents").Status = appsv1.DaemonSetStatus{} },
		[]string{"warning agents: DaemonSet hpp/agents", "selects no node"}},
	"a DaemonSet of a tenant": {func(c *scene.Cluster) {
		ds := scene.Get[appsv1.DaemonSet](c, "agents").DeepCopy()
		ds.Namespace, ds.Spec.Template.Spec.Volumes, ds.Status.DesiredNumberScheduled = "evil", nil, 9
		c.Add(ds)
	}, nil},
	"pods missing": {func(c *scene.Cluster) { scene.Get[appsv1.DaemonSet](c, "agents").Status.DesiredNumberScheduled = 3 },
		[]string{"critical agents: DaemonSet hpp/agents", "2 of 3 nodes", "describe daemonset agents"}},
	"agent not ready":          {func(c *scene.Cluster) { starts(c) }, []string{"critical agents: node node-01", "CrashLoopBackOff", "describe pod agent-node-01"}},
	"agent of disks not ready": {func(c *scene.Cluster) { c.Pod("disks-node-01").Status = corev1.PodStatus{} }, []string{"critical agents: node node-01: pod disks-node-01 is not ready"}},
	"node not ready":           {func(c *scene.Cluster) { c.NotReady("node-01") }, []string{"critical agents: node node-01", "cannot be reached"}},
	"no agents": {func(c *scene.Cluster) {
		scene.Drop[corev1.Pod](c)
		scene.Drop[appsv1.DaemonSet](c)
		scene.Drop[hpp.HostPathProvisioner](c)
		scene.Drop[corev1.PersistentVolume](c)
	}, []string{"critical agents: : no agent of hostpath-provisioner runs in this cluster => install it: see docs/install.md"}},
	"operator degraded": {func(c *scene.Cluster) {
		scene.Get[hpp.HostPathProvisioner](c, "hpp").Status.Conditions[1] = hpp.Condition{Type: hpp.Degraded, Status: corev1.ConditionTrue, Reason: "PoolMissing", Message: "no disk"}
	}, []string{"critical operator: HostPathProvisioner hpp", "Degraded=True: PoolMissing: no disk"}},
	"no operator":        {func(c *scene.Cluster) { scene.Drop[corev1.Pod](c, "operator-1") }, []string{"critical operator", "no pod of the operator is ready"}},
	"permission missing": {func(c *scene.Cluster) { c.Lacks = []string{"list volumeattachments", "get events"} }, []string{"critical permissions: ServiceAccount hpp/agents", "get events", "several agents write"}},
	"no CSIDriver": {func(c *scene.Cluster) { scene.Drop[storagev1.CSIDriver](c) },
		[]string{"critical driver: CSIDriver " + contract.CSIProvisioner, "wait for an attacher", "kubectl apply -k"}},
	"CSIDriver of an attacher": {func(c *scene.Cluster) {
		scene.Get[storagev1.CSIDriver](c, contract.CSIProvisioner).Spec.AttachRequired = nil
	}, []string{"critical driver: CSIDriver " + contract.CSIProvisioner, "has not attachRequired: false", "kubectl replace --force"}},
	"no CSIDriver, a sidecar": {func(c *scene.Cluster) {
		scene.Drop[storagev1.CSIDriver](c)
		c.Provision("")
	}, []string{"critical driver: CSIDriver " + contract.CSIProvisioner}},
	"not registered":         {func(c *scene.Cluster) { scene.Get[storagev1.CSINode](c, "node-02").Spec.Drivers = nil }, []string{"critical kubelet: node node-02", "has not registered driver " + contract.CSIProvisioner, "kubelet-dir"}},
	"node without a CSINode": {func(c *scene.Cluster) { scene.Drop[storagev1.CSINode](c, "node-02") }, []string{"critical kubelet: node node-02", "has not registered"}},
	"several images":         {func(c *scene.Cluster) { c.Agent("node-02").Spec.Containers[0].Image = "hpp:v2" }, []string{"warning versions", "hpp:v1 on node-01; hpp:v2 on node-02"}},
	"a second installation": {func(c *scene.Cluster) { // whose agents are older
		second := scene.AgentPod("node-02")
		second.Namespace, second.Name, second.Spec.Containers[0].Image = "second", "z", "hpp:v2"
		c.Prints["z inspect"], c.Metrics["z"] = scene.JSON(inspect.Report{Pool: inspect.Pool{Held: true}}), scene.Metrics
		c.Add(second)
	}, nil},
	"pool of no process": {report(func(r *inspect.Report) { r.Pool.Held = false }), []string{"warning pools: node node-01", "owned by no process", "kubectl hpp pools local"}},
	"pool not ready": {serves("", "# TYPE kubevirt_hpp_pool_ready gauge\nkubevirt_hpp_pool_ready{pool=\"local\"} 0\n"),
		[]string{"critical pools: node node-01: pool local is not ready", "see docs/runbooks/HPPPoolNotReady.md"}},
	"pool not mounted": {func(c *scene.Cluster) {
		delete(c.Pools, "node-01")
		serves("", "# TYPE kubevirt_hpp_pool_ready gauge\nkubevirt_hpp_pool_ready{pool=\"local\"} 0\n")(c)
	}, []string{"critical pools: node node-01: pool local is not ready", "unknown pools: node node-01", "unknown space", "unknown quotas"}},
	"pool nearly full": {report(func(r *inspect.Report) { r.Space.Available = 9 * scene.GiB }), []string{"warning space: node node-01", "9Gi of 100Gi available"}},
	"disk full":        {report(func(r *inspect.Report) { r.Space.Free = scene.GiB }), []string{"critical space: node node-01", "1Gi of 100Gi are free"}},
	"no quotas":        {report(func(r *inspect.Report) { r.Pool.NoQuotas = "it is mounted without prjquota" }), []string{"warning quotas: node node-01", "without prjquota", "tune2fs"}},
	"no quotas on both": {func(c *scene.Cluster) {
		c.Pools["node-01"][0].Pool.NoQuotas, c.Pools["node-02"][0].Pool.NoQuotas = "tmpfs", "tmpfs"
	}, []string{"warning quotas: node node-01, node node-02: pool local enforces no quotas"}},
	"certificate ends": {func(c *scene.Cluster) {
		serves("4.1e+09", fmt.Sprint(time.Now().Add(6*24*time.Hour).Unix()))(c)
	}, []string{"warning certificates: pod hpp/agent-node-01", "for metrics ends at " + time.Now().Add(6*24*time.Hour).UTC().Format("2006-01-02")}},
	"certificate ended": {serves("4.1e+09", "1.6e+09"), []string{"critical certificates: pod hpp/agent-node-01", "ended at"}},
	"bad parameter":     {class(func(c *storagev1.StorageClass) { c.Parameters["storagepool"] = "local" }), []string{"critical classes: class local", `parameters ["storagepool"]`, "delete it and create it again"}},
	"binds at once": {func(c *scene.Cluster) { claim(c, "local", nil); c.Class("local").VolumeBindingMode = nil },
		[]string{"critical classes: class local", "WaitForFirstConsumer", "warning claims: claim shop/late"}},
	"no such pool": {class(func(c *storagev1.StorageClass) { c.Parameters[contract.StoragePool] = "fast" }), []string{"critical classes: class local", "no node has its pool fast; they have local"}},
	"no such pool by what is published": {func(c *scene.Cluster) { c.Class("local").Name, c.Forbidden = "other", []string{"pods/exec"} },
		[]string{"critical classes: class other", "unknown pools", "unknown space"}},
	"nothing is published": {func(c *scene.Cluster) { // but for nodes that an autoscaler may add
		for _, name := range []string{"local-node-01", "local-node-02"} {
			scene.Get[storagev1.CSIStorageCapacity](c, name).NodeTopology.MatchLabels = map[string]string{contract.LabelTemplateNode: "true"}
		}
		c.Forbidden = []string{"pods/exec"}
	},
		[]string{"unknown classes: class local", "unknown pools", "unknown space"}},
	"pool without a name": {class(func(c *storagev1.StorageClass) { c.Parameters = nil }), []string{"critical classes: class local", "its pool legacy"}},
	"class of nobody":     {func(c *scene.Cluster) { hostPath(c); c.Provision("csi") }, []string{"critical classes: class hostpath", "no agent serves its provisioner", "PROVISION"}},
	"mount options":       {func(c *scene.Cluster) { hostPath(c).MountOptions = []string{"ro"} }, []string{"critical classes: class hostpath", "mountOptions"}},
	"mount option of a filesystem": {class(func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime", "ro,discard"} }),
		[]string{"critical classes: class local", `mount options ["discard"]`, "delete it and create it again"}},
	"two defaults": {func(c *scene.Cluster) {
		c.Class("cloud").Annotations = map[string]string{"storageclass.beta.kubernetes.io/is-default-class": "true"}
	}, []string{"warning default-class", "cloud, local"}},
	"node gone": {func(c *scene.Cluster) { c.Add(scene.CSIPV("pvc-9", "node-09", "shop", "x")) }, []string{"critical volumes: PV pvc-9", "node-09 does not exist", "docs/node-gone.md"}},
	"no agent on the node": {func(c *scene.Cluster) { c.Add(scene.Node("node-03"), scene.CSIPV("pvc-3", "node-03", "shop", "x")) },
		[]string{"critical volumes: PV pvc-3", "no agent on its node node-03"}},
	"disk of a node that is gone": {func(c *scene.Cluster) { c.Add(scene.DiskPV("local-sdb", "gone", "/dev/sdb")) }, []string{"critical volumes: PV local-sdb: its node gone does not exist"}},
	"node renamed": {func(c *scene.Cluster) { c.Node("node-01").Labels[corev1.LabelHostname] = "new-name" },
		[]string{"critical volumes: PV local-node-01-sdb: it requires the hostname node-01, and node node-01 has \"new-name\"", "troubleshooting.md"}},
	"hostPath PV without an agent": {func(c *scene.Cluster) { c.Add(scene.HostPathPV("pvc-h", "node-01", "shop", "x")) }, []string{"warning volumes: PV pvc-h", "it neither grows nor is deleted"}},
	"selected node missing": {func(c *scene.Cluster) { claim(c, "local", map[string]string{contract.AnnSelectedNode: "node-09"}) },
		[]string{"critical claims: claim shop/late", "selected-node names node node-09", "annotate pvc late volume.kubernetes.io/selected-node-"}},
	"annotated node missing": {func(c *scene.Cluster) {
		hostPath(c)
		claim(c, "hostpath", map[string]string{contract.AnnProvisionOnNode: "node-09"})
	}, []string{"critical claims: claim shop/late", "provisionOnNode names node node-09"}},
	"claim waits": {func(c *scene.Cluster) { claim(c, "local", map[string]string{contract.AnnSelectedNode: "node-01"}) },
		[]string{"warning claims: claim shop/late", "more than 5m", "kubectl hpp explain late -n shop"}},
	"claim waits for a pod": {func(c *scene.Cluster) { claim(c, "local", nil) }, nil},
	"lost claim":            {lost("local"), []string{"critical claims: claim shop/late: its PV pvc-9 does not exist", "kubectl hpp explain late -n shop"}},
	"lost claim with its data": {func(c *scene.Cluster) {
		lost("of-others")(c)
		c.Pools["node-02"][0].Volumes = []inspect.Volume{{Name: "pvc-9", PV: "pvc-9"}}
	}, []string{"critical claims: claim shop/late: its PV pvc-9 does not exist; its data is there: directory pvc-9 of", "on node node-02"}},
	"lost claim of others": {lost("cloud"), nil},
	"clock ahead":          {renewed(time.Minute + 10*time.Second), []string{"warning clocks: node node-01", " ahead of the API server's"}},
	"clock behind":         {renewed(-time.Hour), []string{"warning clocks: node node-01", "old: its clock is behind"}},
	"event of the future": {func(c *scene.Cluster) {
		e := c.Event("DaemonSet", "agents", "X", "")
		e.LastTimestamp, e.Source.Host = scene.Ago(-time.Hour), "node-02"
	}, []string{"warning clocks: node node-02", "in the future"}},
	"old Kubernetes": {func(c *scene.Cluster) { c.Minor = "29" }, []string{"warning kubernetes", "1.30 to 1.37"}},
	"odd version":    {func(c *scene.Cluster) { c.Minor = "" }, []string{"unknown kubernetes", "1."}},
	"disks": {devices(`kubevirt_hpp_devices{node="node-01",state="error"} 1
kubevirt_hpp_devices{node="node-01",state="gone"} 2
kubevirt_hpp_devices{node="node-01",state="unclear"} 1
kubevirt_hpp_devices{node="node-01",state="refused"} 4
`), []string{"critical disks: node node-01: 2 disks with a PV are gone", "warning disks: node node-01: 1 disk cannot be proven", "warning disks: node node-01: 1 disk cannot be read"}},
	"disks, an older agent": {devices("local_pv_provisioner_error_devices{node=\"node-01\"} 3\n"), []string{"warning disks: node node-01: 3 disks cannot be read"}},
	"quota lost": {serves("", `# TYPE kubevirt_hpp_volume_abnormal gauge
kubevirt_hpp_volume_abnormal{pool="local",volume="pvc-1",namespace="shop",persistentvolumeclaim="data",reason="QuotaLost"} 1
kubevirt_hpp_volume_abnormal{pool="local",volume="pvc-2",namespace="shop",persistentvolumeclaim="logs",reason="DirectoryMissing"} 1
`), []string{"warning volume-health: claim shop/data", "QuotaLost", "critical volume-health: claim shop/logs"}},
	"no answer": {func(c *scene.Cluster) { delete(c.Pools, "node-01") }, []string{"unknown pools: node node-01: unable to upgrade", "unknown space", "unknown quotas"}},
	"directory of the kubelet": {func(c *scene.Cluster) {
		starts(c)
		c.Event("Pod", "agent-node-01", "FailedMount", "hostPath type check failed: /var/lib/kubelet/pods is not a directory").InvolvedObject.UID = "agent-node-01"
	}, []string{"critical agents: node node-01", "critical kubelet: node node-01: the pod of its agent does not start: hostPath type check failed", "kubelet-dir"}},
	"insufficient quota": {func(c *scene.Cluster) {
		scene.Get[appsv1.DaemonSet](c, "agents").Status.DesiredNumberScheduled = 3
		c.Event("DaemonSet", "agents", "FailedCreate", "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]")
	}, []string{"critical agents: DaemonSet", "critical priority-quota: namespace hpp", "quota.yaml"}},
	"metrics unknown on both": {func(c *scene.Cluster) { delete(c.Metrics, "agent-node-01"); delete(c.Metrics, "agent-node-02") },
		[]string{"unknown volume-health", "unknown system-disk: node node-01, node node-02: its metrics: the API server does not reach the pod", "unknown certificates: node node-01, node node-02"}},
	"system disk without quotas": {func(c *scene.Cluster) {
		c.Metrics["agent-node-01"] = strings.NewReplacer(`method="project",pool="local"} 1`, `method="none",pool="local"} 0`, `shared_with_os{pool="local"} 0`, `shared_with_os{pool="local"} 1`).Replace(scene.Metrics)
	}, []string{"warning system-disk: node node-01", "can fill the node", "own-disk"}},
	"system disk with quotas": {serves("shared_with_os{pool=\"local\"} 0", "shared_with_os{pool=\"local\"} 1"), nil},
	"no quotas by metrics": {func(c *scene.Cluster) {
		c.Forbidden = []string{"pods/exec"}
		serves(`method="project",pool="local"} 1`, `method="none",pool="local"} 0`)(c)
	}, []string{"warning quotas: node node-01", "unknown pools: : may not run commands", "unknown space"}},
	"control plane without an agent": {func(c *scene.Cluster) {
		n := scene.Node("cp-01")
		n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		c.Add(n)
	}, nil},
}

// Each row has its findings, and no others.
func TestChecks(t *testing.T) {
	for name, row := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := scene.Healthy()
			row.spoil(c)
			got, lines := found(Run(read(t, c))), 0
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("found\n%swant %q", got, want)
				}
				if slices.ContainsFunc([]string{"warning ", "critical ", "unknown "}, func(v string) bool { return strings.HasPrefix(want, v) }) {
					lines++
				}
			}
			if n := strings.Count(got, "\n"); n != lines {
				t.Errorf("found %d rows, want %d:\n%s", n, lines, got)
			}
		})
	}
}

// Each check has a row that it makes.
func TestEveryCheckHasARow(t *testing.T) {
	for _, c := range checks {
		made := false
		for _, row := range changes {
			made = made || slices.ContainsFunc(row.want, func(w string) bool {
				return strings.HasPrefix(w, "warning "+c.name) || strings.HasPrefix(w, "critical "+c.name)
			})
		}
		if !made {
			t.Errorf("no row makes a finding of %s", c.name)
		}
	}
}

// A permission that doctor lacks is an unknown of each row that needs it, and of no other.
func TestUnread(t *testing.T) {
	for resource, want := range map[string]string{
		"nodes": "agents, volumes, claims, clocks", "pods": "agents, operator, permissions, kubelet, driver, versions, pools, space, volume-health, disks, quotas, system-disk, certificates, classes, volumes, claims",
		"csinodes": "kubelet", "csidrivers": "driver", "storageclasses": "classes, default-class, claims", "persistentvolumes": "volumes",
		"persistentvolumeclaims": "claims", "daemonsets": "agents, priority-quota", "hostpathprovisioners": "operator", "leases": "clocks",
		"events": "kubelet, priority-quota, clocks", "subjectaccessreviews": "permissions", "pods/proxy": "volume-health, disks, system-disk, certificates",
		"pods/exec": "pools, space", "csistoragecapacities": "", "/version": "kubernetes",
	} {
		c := scene.Healthy()
		c.Forbidden = []string{resource}
		var unknown []string
		for _, r := range Run(read(t, c)) {
			switch {
			case r.Verdict == Unknown && !slices.Contains(unknown, r.Check):
				unknown = append(unknown, r.Check)
			case r.Verdict != OK && r.Verdict != Unknown:
				t.Errorf("%s: %+v", resource, r)
			}
		}
		if got := strings.Join(unknown, ", "); got != want {
			t.Errorf("%s is unknown in %q, want %q", resource, got, want)
		}
	}
	c := scene.Healthy()
	c.Forbidden = []string{"*"}
	for _, r := range Run(read(t, c)) {
		if r.Verdict != Unknown {
			t.Errorf("%+v", r)
		}
	}
}

// What the API server answers is judged by the time of its answer: agents that answer minutes later
// make no clock wrong, and no claim old.
func TestSlowAgentsMakeNoClockWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, c := &cluster.Clock{}, scene.Healthy()
		if _, err := clock.Wrap(dated{}).RoundTrip(nil); err != nil {
			t.Fatal(err)
		}
		young := c.Claim("new")
		young.CreationTimestamp, c.Node("node-01").ResourceVersion = scene.Ago(4*time.Minute), "1"
		lease := scene.Get[coordinationv1.Lease](c, "node-01")
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now()))
		objects := []runtime.Object{c.Node("node-01"), c.Class("local"), young, lease}
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

// What is measured is a row, and what is worth having is no finding.
func TestMeasuredAndTips(t *testing.T) {
	c := scene.Healthy()
	c.Minor = "37"
	f := read(t, c)
	for want, m := range map[string]Measured{"warning controller-manager: : kube-controller-manager was 2.1s behind after 80 claims": {Claims: 80, Lag: 2100 * time.Millisecond},
		"unknown controller-manager: : may not": {Unknown: "may not"}, "": {Claims: 80, Lag: time.Second}} {
		f.Measured = &m
		if got := found(Run(f)); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("found %s, want %q", got, want)
		}
	}
	f.Measured = &Measured{Claims: 80, Lag: time.Second}
	text := ""
	for _, r := range Run(f) {
		text += r.Why
	}
	if !strings.Contains(text, "preventPodSchedulingIfMissing") || !strings.Contains(text, "1s behind after 80 claims") {
		t.Errorf("tips %q", text)
	}
}

// large are the facts of a cluster whose nodes have 10 volumes each, and a claim that waits.
func large(t *testing.T, count int) *Facts {
	f := read(t, scene.Healthy())
	node, agent, csi, pools, lease, metrics := f.Nodes.Items[0], f.Agents.Items[0], f.CSINodes.Items[0], f.Pools[0], f.Leases.Items[0], f.Metrics[0]
	f.Nodes.Items, f.Agents.Items, f.CSINodes.Items, f.Pools, f.Leases.Items, f.Metrics = nil, nil, nil, nil, nil, nil
	for i := range count {
		name := fmt.Sprintf("node-%05d", i)
		n, c, l := *node.DeepCopy(), *csi.DeepCopy(), *lease.DeepCopy()
		n.Name, agent.Node, c.Name, l.Name, pools.Agent.Node = name, name, name, name, name
		f.Nodes.Items, f.Agents.Items, f.CSINodes.Items = append(f.Nodes.Items, n), append(f.Agents.Items, agent), append(f.CSINodes.Items, c)
		f.Pools, f.Leases.Items, f.Metrics = append(f.Pools, pools), append(f.Leases.Items, l), append(f.Metrics, metrics)
		for v := range 10 {
			f.PVs.Items = append(f.PVs.Items, *scene.CSIPV(fmt.Sprintf("pvc-%d-%d", i, v), name, "shop", "x"))
		}
		waits := *scene.Claim("shop", "waits-"+name, "")
		waits.Annotations = map[string]string{contract.AnnSelectedNode: name}
		f.Claims.Items = append(f.Claims.Items, waits)
	}
	return f
}

// The time grows with the nodes, not with their square.
func TestDoctorIsLinear(t *testing.T) {
	scene.Linear(t, 500, func(count int) func() {
		f := large(t, count)
		return func() { Run(f) }
	})
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
