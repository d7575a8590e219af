package pvs

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// unservedPV returns the PV of another provisioner's claim, or of a hostPath claim if the setting
// is "", with the label of this node, for a directory.
func unservedPV(t *testing.T, setting, dir, poolID string) *corev1.PersistentVolume {
	t.Helper()
	dialects, err := contract.ParseCompat(setting)
	if err != nil {
		t.Fatal(err)
	}
	if setting == "" {
		dialects = []contract.Dialect{contract.Own(false)}
	}
	claim, sc := classtest.Claim(testUID, "wait", ""), classtest.Class("wait")
	sc.Provisioner = dialects[0].Provisioner
	at := contract.Place{Node: "node-01", Hostname: "host-a", Pool: poolID}
	name := contract.PVName(claim)
	pv := dialects[0].PV(name, filepath.Join(dir, dialects[0].Directory(claim, sc)), claim, sc, at, corev1.PersistentVolumeReclaimDelete)
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	pv.Status.Phase, pv.UID = corev1.VolumeBound, "pv-uid"
	return pv
}

// A PV of a provisioner that this agent does not serve may be healthy: another agent of the node
// serves it. An event tells of one whose volume is in a pool of this agent, because no other agent
// can have that.
func TestUnservedPV(t *testing.T) {
	for what, row := range map[string]struct {
		elsewhere bool // the directory is another agent's
		recorded  string
		migrated  bool // by MIGRATE_FROM
		migrating bool
		id        string
		want      string // "" if there is no event
	}{
		"the other agent's":        {elsewhere: true},
		"its own, of before":       {recorded: "pvc-" + testUID, want: "no more"},
		"it is to be migrated":     {recorded: "pvc-" + testUID, migrated: true},
		"it is being migrated":     {recorded: "pvc-" + testUID, migrating: true},
		"another PV's volume":      {recorded: "pvc-other"},
		"no volume":                {},
		"a volume of another pool": {recorded: "pvc-" + testUID, id: "6e0c"},
	} {
		for setting, remedy := range map[string]string{"local-path": "COMPAT", "hostpath": "COMPAT", "": "both-modes"} {
			if setting == "" && row.migrated {
				continue
			}
			t.Run(what+", "+setting, func(t *testing.T) {
				p := newPVs(t)
				if setting == "" {
					p.backends = p.backends[1:] // CSI alone
				}
				pool := p.Pools.Named("legacy")
				dir := pool.Path()
				if row.elsewhere {
					dir = "/opt/local-path-provisioner"
				}
				id := row.id
				if id == "" {
					id = pool.ID()
				}
				pv := unservedPV(t, setting, dir, id)
				name := filepath.Base(contract.DirectoryOf(pv))
				if row.recorded != "" {
					if _, err := pool.Create(volume.Spec{Name: name, Bytes: 1, PV: row.recorded, Owner: ownerOf(pv)}); err != nil {
						t.Fatal(err)
					}
					if _, err := pool.Bind(name, volume.Binding{PV: row.recorded, Owner: ownerOf(pv)}); err != nil {
						t.Fatal(err)
					}
				}
				if row.migrating {
					if _, err := pool.BeginMigration(name, record.Migration{}); err != nil {
						t.Fatal(err)
					}
				}
				if row.migrated {
					p.Others, _ = contract.ParseProvisioners(pv.Annotations[contract.AnnProvisionedBy])
				}
				if err := p.informer.GetStore().Add(pv); err != nil {
					t.Fatal(err)
				}
				client := fake.NewClientset(pv)
				p.Client, p.Events = client, events.New(client, "node-01")
				defer p.Events.Close()
				if err := p.sync(t.Context(), pv.Name); err != nil {
					t.Fatal(err)
				}
				said := ""
				for _, e := range eventsOf(t, client) {
					said += e.Reason + ": " + e.Message
				}
				if (said == "") != (row.want == "") || !strings.Contains(said, row.want) || row.want != "" && !strings.Contains(said, remedy) {
					t.Errorf("said %q, want %q", said, row.want)
				}
				if strings.Contains(said, "delete it") {
					t.Errorf("a healthy PV: %q", said)
				}
			})
		}
	}
}

// A pool is expected where a PV of a provisioner names it that the agent served before.
func TestUnservedPVExpectsItsPool(t *testing.T) {
	p := newPVs(t)
	pool := p.Pools.Named("legacy")
	for _, pv := range []*corev1.PersistentVolume{unservedPV(t, "local-path", pool.Path(), "6e0c"), unservedPV(t, "local-path", "/elsewhere", "9f8e")} {
		pv.Name += pv.Annotations[contract.AnnPool]
		if err := p.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.Expected(pool).IDs; len(got) != 1 || got[0] != "6e0c" {
		t.Errorf("expected %q", got)
	}
}

func eventsOf(t *testing.T, client *fake.Clientset) []corev1.Event {
	t.Helper()
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
