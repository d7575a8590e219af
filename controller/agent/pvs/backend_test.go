package pvs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestMatches(t *testing.T) {
	c := newPVs(t)
	pv := validPV(c, "wait")
	v := volume.Volume{Record: record.Record{PV: pv.Name, Owner: record.Owner{UID: testUID}}}
	if err := matches(v, pv); err != nil {
		t.Error(err)
	}
	v.PV = "pvc-other"
	if err := matches(v, pv); err == nil || !strings.Contains(err.Error(), "pvc-other") {
		t.Errorf("another's directory: %v", err)
	}
	v.PV, v.Owner.UID = pv.Name, "other"
	if err := matches(v, pv); err == nil || !strings.Contains(err.Error(), testUID) {
		t.Errorf("another claim's directory: %v", err)
	}
	if err := matches(v, pv); !errors.As(err, new(claimMismatch)) {
		t.Errorf("another claim's directory: %v, want that it may be given", err)
	}
	pv.Spec.ClaimRef = nil
	if err := matches(v, pv); err != nil {
		t.Errorf("a PV that waits for a claim: %v", err)
	}
	delete(pv.Annotations, contract.AnnPool)
	if matches(v, pv) == nil {
		t.Error("a PV without claim and pool matches a claim's directory")
	}
}

func TestCheckNames(t *testing.T) {
	c := newPVs(t)
	own := contract.Own(false)
	pv := validPV(c, "wait")
	claim := pv.Spec.ClaimRef.Name
	for name, want := range map[string]bool{
		pv.Name: true, claim + "-" + pv.Name: true, "other-" + pv.Name: false, "data": false, claim: false,
	} {
		if got := own.CheckNames(pv, name) == nil; got != want {
			t.Errorf("directory %q adoptable: %v", name, got)
		}
	}
	pv.Name = "my-pv"
	if own.CheckNames(pv, "my-pv") == nil {
		t.Error("a PV of any name is adopted")
	}
	pv.Name, pv.Spec.ClaimRef = "pvc-"+testUID, nil
	if own.CheckNames(pv, pv.Name) == nil {
		t.Error("a PV without claim is adopted")
	}
}

func TestBackendOf(t *testing.T) {
	c := newPVs(t)
	alone := func(keep int) *PVs { return &PVs{backends: c.backends[keep : keep+1]} }
	hostPath, csi := validPV(c, "wait"), validPV(c, "csi")
	change := func(pv *corev1.PersistentVolume, driver, by string) *corev1.PersistentVolume {
		pv = pv.DeepCopy()
		if pv.Spec.CSI != nil {
			pv.Spec.CSI.Driver = driver
		}
		pv.Annotations[contract.AnnProvisionedBy] = by
		return pv
	}
	const local, foreign = contract.CSIProvisioner, "example.com.driver"
	for what, row := range map[string]struct {
		p    *PVs
		pv   *corev1.PersistentVolume
		want string
	}{
		"hostPath":                             {c, hostPath, contract.HostPathProvisioner},
		"CSI":                                  {c, csi, local},
		"CSI, made by hand":                    {c, change(csi, local, ""), local},
		"CSI, annotated as hostPath":           {c, change(csi, local, contract.HostPathProvisioner), local},
		"another's CSI":                        {c, change(csi, foreign, foreign), ""},
		"another's CSI, annotated as local":    {c, change(csi, foreign, local), local},
		"another's CSI, annotated as hostPath": {c, change(csi, foreign, contract.HostPathProvisioner), contract.HostPathProvisioner},
		"hostPath, annotated as CSI":           {c, change(hostPath, "", local), local},
		"hostPath without annotation":          {c, change(hostPath, "", ""), contract.HostPathProvisioner},
		"hostPath of another dialect":          {c, change(hostPath, "", contract.LocalPathProvisioner), ""},
		"hostPath of no dialect":               {c, change(hostPath, "", foreign), contract.HostPathProvisioner},
		"hostPath, served elsewhere":           {alone(1), hostPath, ""},
		"CSI, served elsewhere":                {alone(0), csi, ""},
	} {
		got := ""
		if b := row.p.backendOf(row.pv); b != nil {
			got = b.Provisioner
		}
		if got != row.want {
			t.Errorf("%s: backend of %q, want %q", what, got, row.want)
		}
	}
}

func TestMatchesWithoutPV(t *testing.T) {
	c := newPVs(t)
	for className, want := range map[string]bool{"wait": false, "csi": true} {
		pv := validPV(c, className)
		v := volume.Volume{Record: record.Record{Name: pv.Name, Owner: record.Owner{UID: testUID}}}
		if got := c.backendOf(pv).matches(v, pv) == nil; got != want {
			t.Errorf("%s: a record without PV matches: %v", className, got)
		}
		v.Ephemeral = true
		if c.backendOf(pv).matches(v, pv) == nil {
			t.Errorf("%s: a PV matches an ephemeral inline volume", className)
		}
	}
}

// TestBackendsAreSeparate has two PVs of one directory, whose record names one of them.
func TestBackendsAreSeparate(t *testing.T) {
	for _, made := range []string{"wait", "csi"} {
		c := newPVs(t)
		other := map[string]string{"wait": "csi", "csi": "wait"}[made]
		good, bad := validPV(c, made), validPV(c, other)
		bad.Name = "pvc-another"
		for _, pv := range []*corev1.PersistentVolume{good, bad} {
			pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete
		}
		setObjects(t, c, good, bad)
		pool, name, err := c.backendOf(good).validate(good)
		if err != nil {
			t.Fatal(err)
		}
		v, err := pool.Create(volume.Spec{Name: name, Bytes: 1, PV: good.Name, Owner: ownerOf(good), Cluster: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if p, n, err := c.backendOf(bad).validate(bad); p != pool || n != name || err != nil {
			t.Fatalf("%s: the row is wrong: %s, %v", other, n, err)
		}
		if c.Deletable(bad) == nil || c.Delete(t.Context(), bad) == nil {
			t.Errorf("a %s PV deletes the volume of a %s PV", other, made)
		}
		if now, err := pool.Get(name); err != nil || now.Path != v.Path {
			t.Fatalf("%+v, %v", now, err)
		}
		if c.Deletable(good) != nil || c.Delete(t.Context(), good) != nil {
			t.Errorf("the %s PV does not delete its own volume", made)
		}
		if _, err := pool.Get(name); err == nil {
			t.Error("the volume is still there")
		}
	}
}

func TestLacksLabel(t *testing.T) {
	c := newPVs(t)
	for what, row := range map[string]struct {
		class string
		spoil func(*corev1.PersistentVolume)
		want  bool
	}{
		"hostPath":                   {"wait", func(*corev1.PersistentVolume) {}, true},
		"CSI":                        {"csi", func(*corev1.PersistentVolume) {}, true},
		"CSI, made by hand":          {"csi", func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnProvisionedBy) }, true},
		"labelled":                   {"csi", func(pv *corev1.PersistentVolume) { pv.Labels[contract.LabelNode] = "node-01" }, false},
		"another node's label":       {"csi", func(pv *corev1.PersistentVolume) { pv.Labels[contract.LabelNode] = "node-02" }, true},
		"CSI of another driver":      {"csi", func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "example.com" }, false},
		"CSI of another node":        {"csi", func(pv *corev1.PersistentVolume) { affinityValues(pv)[0] = "node-02" }, false},
		"hostPath of another node":   {"wait", func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnProvisionOnNode] = "node-02" }, false},
		"hostPath of no provisioner": {"wait", func(pv *corev1.PersistentVolume) { delete(pv.Annotations, contract.AnnProvisionedBy) }, false},
		"hostPath, annotated as CSI": {"wait", func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnProvisionedBy] = contract.CSIProvisioner }, false},
	} {
		pv := validPV(c, row.class)
		pv.Labels = map[string]string{}
		row.spoil(pv)
		if got := c.lacksLabel(pv); got != row.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestExpected(t *testing.T) {
	c := newPVs(t)
	legacy, fast := c.Pools.All()[0], c.Pools.All()[1]
	var older []corev1.PersistentVolume
	add := func(class, name, id, node string, labelled bool) {
		pv := validPV(c, class)
		pv.Name = name
		pv.Annotations["hostpath-provisioner.kubevirt.io/pool"] = id
		if pv.Spec.CSI != nil {
			pv.Spec.CSI.VolumeHandle = name
			affinityValues(pv)[0] = node
		} else {
			pv.Spec.HostPath.Path = legacy.Path() + "/" + name
		}
		if !labelled {
			older = append(older, *pv)
		} else if err := c.informer.GetStore().Add(pv); err != nil {
			t.Fatal(err)
		}
	}
	add("wait", "a", "id-a", "", true)
	add("wait", "b", "", "", false)
	add("csi", "c", "id-c", "node-01", false)
	add("csi", "d", "", "node-01", true)
	add("csi", "e", "", "node-02", true)
	add("csi-fast", "f", "", "node-01", false)
	add("csi-fast", "g", "id-g", "node-01", true)
	c.unlabelled.Store(&older)
	for _, row := range []struct {
		pool         *volume.Pool
		ids, volumes string
	}{{legacy, "id-a id-c", "b d"}, {fast, "id-g", "f"}} {
		e := c.Expected(row.pool)
		slices.Sort(e.IDs)
		slices.Sort(e.Volumes)
		if strings.Join(e.IDs, " ") != row.ids || strings.Join(e.Volumes, " ") != row.volumes {
			t.Errorf("pool %s: %+v", row.pool.Name(), e)
		}
	}
}

func TestIsRemote(t *testing.T) {
	c := newPVs(t)
	for _, className := range []string{"wait", "csi"} {
		pv := validPV(c, className)
		if c.isRemote(pv) {
			t.Errorf("%s: a local PV is remote", className)
		}
		affinityValues(pv)[0] = "another"
		if c.isRemote(pv) {
			t.Errorf("%s: a PV with this node's label is remote", className)
		}
		pv.Labels[contract.LabelNode], pv.Annotations[contract.AnnProvisionOnNode] = "another", "another"
		if !c.isRemote(pv) {
			t.Errorf("%s: another node's PV is not remote", className)
		}
		pv.Spec.NodeAffinity = nil
		if c.isRemote(pv) {
			t.Errorf("%s: a PV without a node is remote", className)
		}
	}
}
