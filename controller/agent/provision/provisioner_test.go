package provision

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
	"kubevirt.io/hostpath-provisioner/volume/space"
)

// options are what the library gives for a claim of that size.
func options(className, size string) lib.ProvisionOptions {
	claim := classtest.Claim(testUID, className, "")
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return lib.ProvisionOptions{PVName: contract.PVName(claim), PVC: claim, StorageClass: classtest.Class(className)}
}

func TestProvision(t *testing.T) {
	for className, want := range map[string]string{"wait": "legacy", "csi": "legacy", "csi-fast": "fast"} {
		c := examiner(t)
		var changed []string
		c.Changed = func(p *volume.Pool) { changed = append(changed, p.Name()) }
		o := options(className, "1Mi")
		for range 2 {
			pv, state, err := c.Provision(t.Context(), o)
			if err != nil || state != lib.ProvisioningFinished || pv.Name != o.PVName {
				t.Fatalf("%s: %v, %v, %v", className, pv, state, err)
			}
			if _, _, err := c.PVs.VolumeOf(withClaim(pv, o)); err != nil {
				t.Errorf("%s: its own PV is refused: %v", className, err)
			}
		}
		v, err := c.Pools.Named(want).Get(o.PVName)
		if err != nil {
			t.Fatal(err)
		}
		if v.Bytes != 1<<20 || v.PV != o.PVName || v.Cluster != "c" || v.ReclaimPolicy != "Delete" ||
			v.Owner != (record.Owner{Namespace: "default", Name: o.PVC.Name, UID: testUID}) {
			t.Errorf("%s: recorded %+v", className, v.Record)
		}
		if strings.Join(changed, " ") != want+" "+want {
			t.Errorf("%s: changed %q", className, changed)
		}
	}
}

// A size that no int64 holds is not available. Quantity.Value makes 1Gi of the first, and 1 byte of
// the second.
func TestProvisionRefusesSizesOfNoDisk(t *testing.T) {
	for _, size := range []string{"18446744074783293440", "18446744073709551617", "10E", "1e30"} {
		for _, className := range []string{"wait", "csi"} {
			c := examiner(t)
			o := options(className, size)
			pv, _, err := c.Provision(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), "8Ei requested") {
				t.Errorf("%s, class %s: %v, %v", size, className, pv, err)
			}
		}
	}
}

// The agent's policy wins over the class's in PVs of either backend, and in what
// the record says for the orphan search.
func TestProvisionWithTheAgentsPolicy(t *testing.T) {
	for given, want := range map[corev1.PersistentVolumeReclaimPolicy]corev1.PersistentVolumeReclaimPolicy{
		"": corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain: corev1.PersistentVolumeReclaimRetain,
	} {
		for _, className := range []string{"wait", "csi"} {
			of := examiner(t)
			c, err := New(Config{Client: of.Client, Events: of.Events, Info: of.Info, Claims: of.Claims, PVs: of.PVs,
				Pools: of.Pools, Backends: of.Backends, ReclaimPolicy: given})
			if err != nil {
				t.Fatal(err)
			}
			o := options(className, "1Mi")
			pv, _, err := c.Provision(t.Context(), o)
			if err != nil || pv.Spec.PersistentVolumeReclaimPolicy != want {
				t.Fatalf("%s with %q: %v, %v", className, given, pv, err)
			}
			if v, err := c.Pools.Named("legacy").Get(o.PVName); err != nil || v.ReclaimPolicy != string(want) {
				t.Errorf("%s with %q: recorded %+v, %v", className, given, v.Record, err)
			}
		}
	}
}

// withClaim is a PV as the library saves it.
func withClaim(pv *corev1.PersistentVolume, o lib.ProvisionOptions) *corev1.PersistentVolume {
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: o.PVC.Namespace, Name: o.PVC.Name, UID: o.PVC.UID}
	pv.Annotations[contract.AnnProvisionedBy] = o.StorageClass.Provisioner
	return pv
}

// The provisioner sidecar asked the driver for the volume before; what the
// driver records without a claim's and a PV's name is the volume all the same.
func TestProvisionFindsTheSidecarsVolume(t *testing.T) {
	c := examiner(t)
	fast := c.Pools.Named("fast")
	o := options("csi-fast", "1Mi")
	before, err := c.Pools.Create(fast, volume.Spec{Name: o.PVName, Bytes: 1 << 20, Owner: record.Owner{UID: testUID}})
	if err != nil {
		t.Fatal(err)
	}
	if pool, _ := existing(c.Backends.Named(contract.CSIProvisioner), c.Pools.All(), o.PVC, o.StorageClass); pool != fast {
		t.Error("its space would be allocated twice")
	}
	pv, _, err := c.Provision(t.Context(), o)
	if err != nil || pv.Spec.CSI.VolumeHandle != before.Name {
		t.Fatalf("%v, %v", pv, err)
	}
	if v, err := fast.Get(o.PVName); err != nil || v.Record != before.Record {
		t.Errorf("%+v, %v", v.Record, err)
	}
}

func TestProvisionGivesBack(t *testing.T) {
	c := examiner(t)
	absent := options("csi", "1Mi")
	absent.StorageClass.Parameters = map[string]string{contract.StoragePool: "slow"}
	refused := func(what string, o lib.ProvisionOptions, want lib.ProvisioningState, words string) {
		t.Helper()
		pv, state, err := c.Provision(t.Context(), o)
		if pv != nil || state != want || err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, %s, %v", what, pv, state, err)
		}
		// An answer that may change is the agent's to tell, once: the library would record it, too.
		lasting := strings.Contains(words, "conflict") || strings.Contains(words, "of this name")
		if ignored := errors.As(err, new(*lib.IgnoredError)); ignored != (state == lib.ProvisioningFinished && !lasting) {
			t.Errorf("%s: the library is to keep quiet: %t, %v", what, ignored, err)
		}
	}
	const finished, again = lib.ProvisioningFinished, lib.ProvisioningReschedule
	refused("CSI, no space", options("csi", "1Ei"), again, "node node-01: 1Ei requested")
	for _, className := range []string{"csi", "wait"} {
		if _, _, err := c.Provision(t.Context(), options(className, "1Ei")); regexp.MustCompile(`available \d{5}`).MatchString(err.Error()) {
			t.Errorf("the words change with every byte that is written: %v", err)
		}
	}
	refused("CSI, no such pool", absent, again, `has no pool "slow"`)
	must := func(className string) lib.ProvisionOptions {
		o := options(className, "1Mi")
		sc := *o.StorageClass
		sc.Parameters = map[string]string{contract.QuotaParameter: "required"}
		o.StorageClass = &sc
		return o
	}
	refused("CSI, no quotas", must("csi"), again, "parameter quota")
	refused("CSI, Immediate, no quotas", must("csi-now"), finished, "parameter quota")
	refused("hostPath, no quotas", must("wait"), finished, "node node-01 cannot hold a volume in pool legacy to its size")
	refused("CSI, Immediate, no space", options("csi-now", "1Ei"), finished, "1Ei requested")
	refused("hostPath, no space", options("wait", "1Ei"), again, "1Ei requested")
	o := options("wait", "1Mi")
	if _, err := c.Pools.Create(c.Pools.All()[0], volume.Spec{Name: o.PVName, Bytes: 5}); err != nil {
		t.Fatal(err)
	}
	refused("hostPath, another's volume", o, finished, "conflict")
	refused("CSI, another's volume", options("csi", "1Mi"), finished, "conflict")
	refused("CSI, another pool's volume", options("csi-fast", "1Mi"), finished, "pool legacy has a volume of this name")
	if err := c.Pools.All()[0].Close(); err != nil {
		t.Fatal(err)
	}
	refused("CSI, pool not ready", options("csi", "1Mi"), again, "node node-01 cannot serve this claim now")
	refused("hostPath, pool not ready", o, finished, "node node-01 cannot serve this claim now")
}

// A claim whose pool belongs on other nodes goes back to the scheduler, although a pool of an earlier
// time is here. Its volumes stay.
func TestPoolOfOtherNodesGivesBack(t *testing.T) {
	is := pooldir.Selected
	c := examinerOf(t, classtest.PoolsOf(t, func(c *volume.Config) {
		c.Selected = func() (pooldir.Selection, string) { return is, "the labels do not match" }
	}))
	served := options("csi", "1Mi")
	if pv, _, err := c.Provision(t.Context(), served); pv == nil || err != nil {
		t.Fatal(pv, err)
	}
	is = pooldir.NotSelected
	if pv, _, err := c.Provision(t.Context(), served); pv == nil || err != nil {
		t.Errorf("of a volume that is there: %v, %v", pv, err)
	}
	o := options("csi", "1Mi")
	o.PVC = o.PVC.DeepCopy()
	o.PVC.UID, o.PVName = "another", "pvc-another"
	if pv, state, err := c.Provision(t.Context(), o); pv != nil || state != lib.ProvisioningReschedule || err == nil ||
		!strings.Contains(err.Error(), "does not serve this claim from pool legacy: the labels do not match") {
		t.Errorf("%v, %s, %v", pv, state, err)
	}
}

// What the class says of limits is recorded, and that a pool has none is said
// once.
func TestUnlimitedIsSaidOnce(t *testing.T) {
	c := examiner(t)
	pool := c.Pools.Named("fast")
	if strings.Contains(c.Pools.Named("legacy").Quotas().String(), "enforced by") {
		t.Fatal("this test needs a temporary directory without quota: set TMPDIR")
	}
	made := func(name string, spec volume.Spec) string {
		spec.Name, spec.Bytes = name, 1<<20
		v, err := pool.Create(spec)
		if err != nil {
			t.Fatal(err)
		}
		return c.noQuota(pool, v)
	}
	if words := made("a", volume.Spec{Quota: record.QuotaNone}); words != "" {
		t.Errorf("it asked for none: %q", words)
	}
	if words := made("b", volume.Spec{}); !strings.Contains(words, "node node-01") || !strings.Contains(words, pool.Quotas().Reason) {
		t.Errorf("said %q", words)
	}
	if words := made("c", volume.Spec{}); words != "" {
		t.Errorf("said again: %q", words)
	}
	sc := classtest.Class("csi-fast")
	sc.Parameters = map[string]string{contract.QuotaParameter: "none"}
	if s := specOf(classtest.Claim(testUID, "csi-fast", ""), sc); s.Quota != record.QuotaNone || s.Owner.UID != testUID {
		t.Errorf("%+v", s)
	}
	if !quotaParameterRecorded(t, c) {
		t.Error("the class's parameter is not recorded")
	}
}

func quotaParameterRecorded(t *testing.T, c *Controller) bool {
	t.Helper()
	o := options("csi", "1Mi")
	o.StorageClass.Parameters = map[string]string{contract.QuotaParameter: "none"}
	if _, _, err := c.Provision(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	v, err := c.Pools.Named("legacy").Get(o.PVName)
	return err == nil && v.Quota == record.QuotaNone
}

func TestGivesBack(t *testing.T) {
	c := examiner(t)
	space := &refusal{reason: refusedSpace, temporary: true}
	ready := &refusal{reason: refusedNotReady, temporary: true}
	held := &refusal{reason: refusedNotReady, temporary: true, silent: true}
	offered := &refusal{reason: refusedUnsupported}
	room := &refusal{reason: refusedRoom, temporary: true}
	for _, row := range []struct {
		class     string
		annotated bool
		r         *refusal
		want      bool
	}{
		{"wait", false, space, true},
		{"wait", true, space, false},
		{"wait", false, ready, false},
		{"wait", false, offered, false},
		{"now", false, space, false},
		{"csi", false, space, true},
		{"csi", true, space, true},
		{"csi", false, ready, true},
		{"csi", false, held, false},
		{"csi", false, offered, false},
		{"csi-now", false, space, false},
		{"wait", false, room, false},
		{"csi", false, room, false},
	} {
		claim, sc := classtest.Claim(testUID, row.class, ""), classtest.Class(row.class)
		if row.annotated {
			claim = classtest.Claim(testUID, row.class, "", contract.AnnProvisionOnNode, "node-02")
		}
		s := c.Backends.Named(sc.Provisioner)
		if got := s.GivesBack(claim, sc, row.r.why()); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
		if got := !s.Dialect.ByAnnotation && contract.NamesNode(claim); got != (row.annotated && row.class == "csi") {
			t.Errorf("%+v: annotation ignored: %v", row, got)
		}
	}
}

func TestRefusalOf(t *testing.T) {
	c := examiner(t)
	s := c.Backends.Named(contract.CSIProvisioner)
	refusal := func(o lib.ProvisionOptions) *refusal { return c.refusalOf(t.Context(), s, o.PVC, o.StorageClass) }
	fits, big, absent := options("csi-fast", "1Mi"), options("csi-fast", "1Ei"), options("csi", "1Mi")
	absent.StorageClass.Parameters = map[string]string{contract.StoragePool: "slow"}
	if r := refusal(fits); r != nil {
		t.Errorf("refused: %+v", r)
	}
	if r := refusal(big); r == nil || r.reason != refusedSpace || !r.temporary || !strings.Contains(r.message, c.Pools.Named("fast").Path()) {
		t.Errorf("too big: %+v", r)
	}
	none := c.refusalFor(c.Pools.Named("fast"), space.Space{Total: 1 << 40, Free: 1 << 39, NoInodes: true}.Check(1))
	if none.reason != refusedSpace || !none.temporary || !strings.Contains(none.message, "inodes") || strings.Contains(none.message, "free space") {
		t.Errorf("no inodes: %+v", none)
	}
	if r := refusal(absent); r == nil || !r.temporary || !strings.Contains(r.message, `"slow"`) || !strings.Contains(r.message, `["legacy" "fast"]`) {
		t.Errorf("no pool: %+v", r)
	}
	must := options("csi-fast", "1Mi")
	must.StorageClass.Parameters = map[string]string{contract.StoragePool: "fast", contract.QuotaParameter: "required"}
	if r := refusal(must); r == nil || r.reason != refusedQuota || !r.temporary || !strings.Contains(r.message, c.Pools.Named("fast").Quotas().Reason) {
		t.Errorf("no quotas: %+v", r)
	}
	if err := c.Pools.Named("fast").Close(); err != nil {
		t.Fatal(err)
	}
	if r := refusal(fits); r == nil || r.reason != refusedNotReady || !r.temporary || r.silent {
		t.Errorf("not ready: %+v", r)
	}
}
