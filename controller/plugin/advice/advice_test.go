package advice

import (
	"cmp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

var created = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// lost is a claim of node-01 whose PV does not exist. Both nodes answered, and neither has the data.
func lost() *Loss {
	l := &Loss{Provisioner: contract.CSIProvisioner, Pool: "local", Claim: &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "c1", CreationTimestamp: metav1.NewTime(created),
			Annotations: map[string]string{contract.AnnSelectedNode: "node-01"}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-c1"}}}
	for _, name := range []string{"node-01", "node-02"} {
		a := cluster.Agent{Node: name, Namespace: "hpp", Pod: "agent-" + name, Container: "hostpath-provisioner",
			Process: cluster.NodeAgent, Ready: true, Provisioners: []string{contract.CSIProvisioner}}
		l.Agents.Items = append(l.Agents.Items, a)
		l.Nodes.Items = append(l.Nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		l.Pools = append(l.Pools, agents.Pools{Agent: a, Reports: []inspect.Report{{Pool: inspect.Pool{
			Name: "local", Path: "/var/hpvolumes/csi", ID: "uuid-" + name, Held: true}}}})
	}
	return l
}

// To delete a Lost claim gives up whatever it had. Each row takes one thing from the proof that it had
// nothing.
func TestLostClaimIsDeletedOnlyWithProof(t *testing.T) {
	if do := lost().GiveUp(); !strings.Contains(do, "delete the claim") {
		t.Fatalf("with proof: %s", do)
	}
	report := func(l *Loss) *inspect.Report { return &l.Pools[1].Reports[0] }
	for name, spoil := range map[string]func(l *Loss){
		"may not ask":                func(l *Loss) { l.NoPools, l.Pools = "may not run commands", nil },
		"the class was made again":   func(l *Loss) { l.ClassSince = metav1.NewTime(created.Add(time.Hour)) },
		"nodes unknown":              func(l *Loss) { l.Nodes = cluster.List[corev1.Node]{Unknown: "may not list nodes"} },
		"agents unknown":             func(l *Loss) { l.Agents = cluster.List[cluster.Agent]{Unknown: "may not list pods"} },
		"class unknown":              func(l *Loss) { l.Provisioner = "" },
		"another provisioner":        func(l *Loss) { l.Provisioner = contract.HostPathProvisioner },
		"an agent is not ready":      func(l *Loss) { l.Agents.Items[1].Ready = false },
		"a node without an agent":    func(l *Loss) { l.Agents.Items, l.Pools = l.Agents.Items[:1], l.Pools[:1] },
		"an agent was not asked":     func(l *Loss) { l.Pools = l.Pools[:1] },
		"an agent did not answer":    func(l *Loss) { l.Pools[1].Reports, l.Pools[1].Problem = nil, "no answer" },
		"an answer is not whole":     func(l *Loss) { l.Pools[1].Problem = "inspect pool fast: its disk is not mounted" },
		"an agent without pools":     func(l *Loss) { l.Pools[1].Reports = nil },
		"a pool is not open":         func(l *Loss) { report(l).Pool.Held = false },
		"a record is damaged":        func(l *Loss) { report(l).Damaged = []string{"pvc-x"} },
		"a record in the trash is":   func(l *Loss) { report(l).Trash = []inspect.TrashEntry{{ID: "x"}} },
		"the node is gone":           func(l *Loss) { l.Claim.Annotations[contract.AnnSelectedNode] = "node-09" },
		"the other node is gone":     func(l *Loss) { l.Claim.Annotations[contract.AnnProvisionOnNode] = "node-09" },
		"no node is named":           func(l *Loss) { l.Claim.Annotations = nil },
		"the Node was made again":    func(l *Loss) { l.Nodes.Items[0].CreationTimestamp = metav1.NewTime(created.Add(time.Hour)) },
		"its pool is not reported":   func(l *Loss) { l.Pools[0].Reports[0].Pool.Name = "other" },
		"the data is there":          func(l *Loss) { report(l).Volumes = []inspect.Volume{{Name: "x", PV: "pvc-c1"}} },
		"of the claim":               func(l *Loss) { report(l).Volumes = []inspect.Volume{{Name: "x", Owner: record.Owner{UID: "c1"}}} },
		"a directory without record": func(l *Loss) { report(l).Unrecorded = []inspect.Unrecorded{{Name: "data-pvc-c1"}} },
		"kept":                       func(l *Loss) { report(l).Kept = []inspect.KeptEntry{{ID: "x", PV: "pvc-c1"}} },
		"kept, of the claim":         func(l *Loss) { report(l).Kept = []inspect.KeptEntry{{ID: "x", Owner: record.Owner{UID: "c1"}}} },
		"in the trash":               func(l *Loss) { report(l).Trash = []inspect.TrashEntry{{ID: "r4nd", Name: "pvc-c1"}} },
		"two agents of one node, one": func(l *Loss) {
			l.Agents.Items = append(l.Agents.Items, l.Agents.Items[0])
			l.Agents.Items[2].Pod = "new"
		},
	} {
		l := lost()
		spoil(l)
		if do := l.GiveUp(); strings.Contains(do, "delete the claim") || l.Unproven() == "" || !strings.Contains(do, "ask an administrator before you delete it") {
			t.Errorf("%s: %s", name, do)
		}
	}
}

// What is found is described with its place, and no text gives it up.
func TestPlaces(t *testing.T) {
	migrating := func(stopped string) *inspect.Migration {
		return &inspect.Migration{Step: record.MigrationCutover, To: "csi", Stopped: stopped}
	}
	for name, row := range map[string]struct {
		volume   inspect.Volume
		what, do string
	}{
		"an orphan":              {inspect.Volume{Orphan: record.Orphan{Why: "its PV is gone"}}, "its data is there", "kubectl -n hpp exec agent-node-01 -c hostpath-provisioner -- /hostpath-provisioner orphans show pvc-c1"},
		"in place":               {inspect.Volume{State: record.Bound}, "its data is there", "orphans show pvc-c1"},
		"a migration":            {inspect.Volume{Migration: migrating("")}, "the agent is replacing its PV", "wait: the agent creates the PV"},
		"a stopped migration":    {inspect.Volume{Migration: migrating("the API server refuses it")}, "the agent is replacing its PV", "docs/migration.md: the API server refuses it"},
		"a migration that ended": {inspect.Volume{Migration: &inspect.Migration{Step: record.MigrationDone}}, "its data is there", "orphans show"},
		"set aside":              {inspect.Volume{Missing: true, State: record.Deleting}, "set aside in the trash", "orphans show pvc-c1"},
		"a name for a shell":     {inspect.Volume{Name: "$(reboot)"}, "its data is there", "kubectl hpp orphans lists"},
		"a name of a flag":       {inspect.Volume{Name: "--all"}, "its data is there", "kubectl hpp orphans lists"},
		"no directory":           {inspect.Volume{Missing: true, State: record.Bound}, "a record and no directory", "restores the directory"},
	} {
		l := lost()
		v := row.volume
		v.Name, v.PV = cmp.Or(v.Name, "pvc-c1"), "pvc-c1"
		l.Pools[0].Reports[0].Volumes = []inspect.Volume{v, {Name: "other", PV: "other", Owner: record.Owner{UID: "c2"}}, {Name: "pvc-c1", PV: "pvc-c1", Ephemeral: true}}
		places := l.Places()
		if len(places) != 1 || !strings.Contains(places[0].What(), row.what) || !strings.Contains(places[0].What(), v.Name+" of /var/hpvolumes/csi on node node-01") ||
			!strings.Contains(places[0].Do(), row.do) || strings.Contains(places[0].Do(), "delete") {
			t.Errorf("%s: %+v: %s => %s", name, places, places[0].What(), places[0].Do())
		}
	}
}

// A missing directory is given up only in an open pool, when no other has the volume.
func TestMissing(t *testing.T) {
	for name, row := range map[string]struct {
		held, elsewhere bool
		state           record.State
		want            bool
	}{
		"open": {true, false, record.Bound, true}, "not open": {false, false, record.Bound, false},
		"elsewhere": {true, true, record.Bound, false}, "set aside": {true, false, record.Deleting, false},
		"not all read": {true, false, record.Bound, false},
	} {
		unread := ""
		if name == "not all read" {
			unread = "pool fast: its disk is not mounted"
		}
		do := Missing(inspect.Report{Pool: inspect.Pool{Held: row.held}}, inspect.Volume{Missing: true, State: row.state}, row.elsewhere, unread)
		if strings.Contains(do, "delete the claim") != row.want {
			t.Errorf("%s: %s", name, do)
		}
	}
}

// What another program printed is no ID that people may paste into a shell.
func TestKept(t *testing.T) {
	l := lost()
	for _, id := range []string{"", "x; reboot", "$(reboot)", "a b", "../x", "\x1b[2J"} {
		l.Pools[1].Reports[0].Kept = append(l.Pools[1].Reports[0].Kept, inspect.KeptEntry{ID: id, PV: "pvc-c1", Owner: record.Owner{Namespace: "shop", Name: "data"}})
	}
	l.Pools[1].Reports[0].Kept = append(l.Pools[1].Reports[0].Kept, inspect.KeptEntry{ID: "R4ND", PV: "pvc-c1", Owner: record.Owner{Namespace: "shop", Name: "data"}})
	for _, places := range [][]Place{l.Places(), Kept(l.Pools, "shop", "data")} {
		if len(places) != 7 || places[6].Do() != "an administrator brings it back: kubectl hpp undelete node-02/R4ND" {
			t.Errorf("%+v", places)
		}
		for _, p := range places[:6] {
			if strings.Contains(p.Do(), "undelete") {
				t.Errorf("%q: %s", p.Volume.Name, p.Do())
			}
		}
	}
}

// The other texts are empty, or another, without what they require.
func TestPreconditions(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	if CreateAgain(claim, "a class") == "" || EndPod(claim, "db-0", nil) != "" {
		t.Error("a claim without a PV that was not deleted")
	}
	claim.Spec.VolumeName, claim.DeletionTimestamp = "pvc-c1", &metav1.Time{}
	if CreateAgain(claim, "a class") != "" || !strings.Contains(EndPod(claim, "db-0", nil), "unless the reclaim policy") {
		t.Error("a claim with a PV that was deleted")
	}
	retained := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain}}
	if do := EndPod(claim, "db-0", retained); !strings.Contains(do, "its data stay") {
		t.Error(do)
	}
	claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "c1"}}
	bound := retained.DeepCopy()
	bound.Name, bound.Spec.ClaimRef = "pvc-c1", &corev1.ObjectReference{UID: "c1"}
	if do := FreeName(claim, bound); !strings.Contains(do, "delete the claim shop/data") || !strings.Contains(do, "data of that claim stay") {
		t.Error(do)
	}
	bound.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if do := FreeName(claim, bound); !strings.Contains(do, "delete the claim shop/data") || !strings.Contains(do, "the data of PV pvc-c1 goes, too") {
		t.Error(do)
	}
	for what, do := range map[string]string{"no PV was read": FreeName(claim, nil), "another's PV": FreeName(claim, retained), "it goes": func() string {
		going := claim.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{}
		return FreeName(going, bound)
	}()} {
		if strings.Contains(do, "delete the claim") {
			t.Errorf("%s: %s", what, do)
		}
	}
	if ConfirmDisk(agents.Device{PV: "a"}) != "" || ConfirmDisk(agents.Device{PV: "a", Confirm: "k=$(reboot)"}) != "" || ConfirmDisk(agents.Device{PV: "a", Confirm: "k=v"}) == "" {
		t.Error("a disk")
	}
}
