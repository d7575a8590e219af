package plugin_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

const gib = scene.GiB

func ago(days int) time.Time { return scene.Ago(scene.Days(days)).Time }

// partly is the healthy cluster with more nodes: no kubelet answers on node-03, node-04 has no agent,
// windows-01 has another system, and node-05 is gone. The pools of node-01 and node-02 have volumes in
// every state.
func partly() *scene.Cluster {
	c := scene.Healthy()
	c.AddNode("node-03")
	c.Add(scene.DiskPod("node-03"), scene.DiskPV("local-node-03-sdb", "node-03", "/dev/sdb"), scene.Node("node-04"), scene.Node("windows-01"))
	c.NotReady("node-03")
	delete(c.Metrics, "agent-node-03")
	c.Node("node-03").Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	c.Node("node-04").Annotations = map[string]string{"local-pv-provisioner.cybozu.io/pv-spec-configmap": "disks"}
	c.Node("windows-01").Labels[corev1.LabelOSStable] = "windows"
	migrated := scene.CSIPV("pvc-6", "node-01", "vms", "disk-1")
	migrated.Annotations[contract.AnnReplaces] = "the one before"
	c.Add(scene.CSIPV("pvc-2", "node-02", "shop", "logs"), scene.CSIPV("pvc-3", "node-03", "shop", "cold"), scene.CSIPV("pvc-5", "node-05", "vms", "lost"),
		migrated, scene.HostPathPV("pvc-7", "node-02", "vms", "disk-2"), scene.HostPathPV("pvc-8", "node-03", "vms", "disk-3"))
	c.Event("Node", "node-03", "PoolNotReady", "pool local in /var/hpvolumes: its disk does not answer").LastTimestamp = scene.Ago(scene.Days(3))
	c.Event("Node", "node-03", "NodeNotReady", "of another project").LastTimestamp = scene.Ago(scene.Days(3))
	c.Pools["node-01"], c.Pools["node-02"] = []inspect.Report{fast(), slow()}, []inspect.Report{local()}
	for _, pod := range []string{"agent-node-03 inspect", "agent-node-03 orphans", "disks-node-03 disks"} {
		c.Prints[pod] = scene.Answer{Unreachable: "error dialing backend: dial tcp 192.0.2.3:10250: connect: no route to host"}
	}
	c.Prints["agent-node-01 orphans"] = scene.Answer{Err: "hostpath-provisioner: orphans: the agent does not serve it", Code: 1}
	c.Prints["agent-node-02 orphans"] = scene.JSON([]agents.Orphan{{Pool: "/var/hpvolumes", PoolUUID: "uuid-3", Name: "pvc-old", Bytes: 2 * gib, PV: "pvc-old", Claim: "shop/old",
		ReclaimPolicy: "Retain", Since: ago(4), Why: "its PV is gone", Kept: "its PV had the policy Retain"}})
	c.Prints["disks-node-01 disks"] = scene.JSON([]agents.Device{
		{Device: "/dev/sdb", ID: "wwn-0x1", Bytes: 100 * gib, State: "bound", PV: "local-node-01-sdb"},
		{Device: "/dev/sdc", ID: "wwn-0x2", Bytes: 100 * gib, State: "wiping", WipeBytes: 100 * gib, Wiped: 100 * gib, Verified: 50 * gib},
		{Device: "/dev/sdd", ID: "wwn-0x3", Bytes: 50 * gib, State: "refused", Why: "it carries an ext4 filesystem"}})
	return c
}

// forbidden is that cluster for a user who may not read the resources.
func forbidden(resources ...string) *scene.Cluster {
	c := partly()
	c.Forbidden = resources
	return c
}

// tenant is the cluster for a user who may read the claims, pods and events of a namespace at most.
func tenant() *scene.Cluster {
	return forbidden("pods/exec", "nodes", "persistentvolumes", "pods", "csistoragecapacities", "persistentvolumeclaims")
}

func fast() inspect.Report {
	v := scene.VolumeOf("pvc-6", "vms", "disk-1", gib, 10*gib)
	v.Migration = &inspect.Migration{Step: record.MigrationDone, To: "csi", Changed: ago(9)}
	return inspect.Report{Version: 1, Pool: inspect.Pool{Name: "fast", Path: "/fast", ID: "uuid-1", Held: true, Quotas: "project", Reserve: gib},
		Space:   space.Space{Total: 100 * gib, Free: 60 * gib, Allocated: 20 * gib, Available: 39 * gib},
		Volumes: []inspect.Volume{scene.VolumeOf("pvc-1", "shop", "data", 9*gib+gib/2, 10*gib), v},
		Trash:   []inspect.TrashEntry{{ID: "0123", Name: "pvc-gone", Bytes: 5 * gib, Since: ago(2), Stuck: "remove pvc-gone: operation not permitted"}, {ID: "4567", Since: ago(2)}}}
}

func slow() inspect.Report {
	return inspect.Report{Version: 1, Pool: inspect.Pool{Name: "slow", Path: "/slow", ID: "uuid-2", Held: true, Quotas: "project"},
		Space: space.Space{Total: 1000 * gib, Free: 990 * gib, Available: 990 * gib}}
}

func local() inspect.Report {
	orphan, stopped, missing := scene.VolumeOf("pvc-old", "shop", "old", 0, 0), scene.VolumeOf("pvc-7", "vms", "disk-2", 0, 0), scene.VolumeOf("pvc-2", "shop", "logs", 0, 0)
	orphan.Orphan = record.Orphan{Why: "its PV is gone", Since: ago(4)}
	stopped.Migration = &inspect.Migration{Step: record.MigrationPrepared, To: "csi", Stopped: "the PV has finalizers of other controllers", Changed: ago(6)}
	missing.Missing = true
	return inspect.Report{Version: 1, Pool: inspect.Pool{Name: "local", Path: "/var/hpvolumes", ID: "uuid-3", Held: true, NoQuotas: "ext4 is mounted without prjquota"},
		Space:      space.Space{Total: 50 * gib, Free: 5 * gib, Allocated: 30 * gib, Available: 4 * gib},
		Volumes:    []inspect.Volume{missing, stopped, orphan},
		Unrecorded: []inspect.Unrecorded{{Name: "backup\x1b[2J"}}}
}
