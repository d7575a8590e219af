package fleet

import (
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

func pv(name string, edit ...func(*corev1.PersistentVolume)) corev1.PersistentVolume {
	p := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnProvisionOnNode: "n"}}}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func annotated(key, value string) func(*corev1.PersistentVolume) {
	return func(p *corev1.PersistentVolume) { p.Annotations[key] = value }
}

func csi(p *corev1.PersistentVolume) {
	p.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner}
}

// stockOf is a stock of PVs, whose node has one pool with volumes.
func stockOf(pvs []corev1.PersistentVolume, volumes ...inspect.Volume) *Stock {
	s := &Stock{PVs: cluster.List[corev1.PersistentVolume]{Items: pvs}}
	s.Nodes.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}
	a := cluster.Agent{Node: "n", Process: cluster.NodeAgent, Ready: true}
	s.Agents.Items = []cluster.Agent{a}
	s.Pools = []agents.Pools{{Agent: a, Reports: []inspect.Report{{Pool: inspect.Pool{Name: "p", Path: "/p/"}, Volumes: volumes}}}}
	return s
}

func TestMigrations(t *testing.T) {
	journal := func(step record.MigrationStep, to, stopped string) inspect.Volume {
		return inspect.Volume{Name: "v", PV: "v", Migration: &inspect.Migration{Step: step, To: to, Stopped: stopped}}
	}
	for name, row := range map[string]struct {
		pv     corev1.PersistentVolume
		record []inspect.Volume
		want   string // step, to, why
	}{
		"a hostPath PV":                {pv("v"), []inspect.Volume{{Name: "v", PV: "v"}}, "left  "},
		"asked for":                    {pv("v", annotated(contract.AnnMigrate, "run")), []inspect.Volume{{Name: "v", PV: "v"}}, "waiting csi the PV's annotation " + contract.AnnMigrate + " asks for it"},
		"asked back":                   {pv("v", csi, annotated(contract.AnnMigrate, "back")), []inspect.Volume{{Name: "v", PV: "v"}}, "waiting hostpath the PV's annotation " + contract.AnnMigrate + " asks for it"},
		"held back":                    {pv("v", annotated(contract.AnnMigrate, "off")), []inspect.Volume{{Name: "v", PV: "v"}}, "left  the PV's annotation " + contract.AnnMigrate + " is off"},
		"under way":                    {pv("v"), []inspect.Volume{journal(record.MigrationCutover, "csi", "")}, "cutover csi "},
		"stopped":                      {pv("v"), []inspect.Volume{journal(record.MigrationPrepared, "csi", "no")}, "stopped csi no"},
		"done, with something left":    {pv("v", csi), []inspect.Volume{journal(record.MigrationDone, "csi", "its policy is not restored")}, "done csi its policy is not restored"},
		"the PV is gone meanwhile":     {pv("other", func(p *corev1.PersistentVolume) { p.Annotations = nil }), []inspect.Volume{journal(record.MigrationCutover, "csi", "")}, "cutover csi "},
		"replaced, no agent reports":   {pv("v", csi, annotated(contract.AnnReplaces, "u")), nil, "done csi "},
		"returned, no agent reports":   {pv("v", annotated(contract.AnnReplaces, "u")), nil, "done hostpath "},
		"hostPath, no agent reports":   {pv("v"), nil, "left  no pool of the node has it"},
		"a CSI PV from the beginning":  {pv("v", csi), []inspect.Volume{{Name: "v", PV: "v"}}, ""},
		"another provisioner's volume": {pv("v", func(p *corev1.PersistentVolume) { p.Annotations = nil }), nil, ""},
	} {
		var got []string
		for _, m := range Migrations(stockOf([]corev1.PersistentVolume{row.pv}, row.record...)) {
			got = append(got, m.Step+" "+m.To+" "+m.Why)
		}
		if text := strings.Join(got, "; "); text != row.want {
			t.Errorf("%s: %q, want %q", name, text, row.want)
		}
	}
}

// What the pool has comes before what the PV shows, and the use decides the order.
func TestVolumes(t *testing.T) {
	deleted := func(p *corev1.PersistentVolume) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	phase := func(phase corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
		return func(p *corev1.PersistentVolume) { p.Status.Phase = phase }
	}
	s := stockOf([]corev1.PersistentVolume{pv("a", phase(corev1.VolumeReleased)), pv("b", deleted), pv("c"), pv("d", annotated(contract.AnnProvisionOnNode, "m"))},
		inspect.Volume{Name: "a", PV: "a", Used: 1, Quota: 10}, inspect.Volume{Name: "b", PV: "b", Used: 5, Quota: 10},
		inspect.Volume{Name: "e", PV: "e", State: record.Ready, Orphan: record.Orphan{Why: "gone"}}, inspect.Volume{Name: "f", State: record.Creating},
		inspect.Volume{Name: "g", PV: "c", Missing: true})
	var got []string
	for _, v := range Volumes(s) {
		got = append(got, strings.TrimSpace(v.Path+" "+v.State+" "+v.Unknown))
	}
	const want = "/p/b terminating; /p/a released; the node does not exist; /p/f creating; /p/g missing; /p/e orphan"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if full := (&Volume{Quota: new(int64)}).Full(); full != -1 {
		t.Errorf("a volume without a quota is full to %v", full)
	}
}
