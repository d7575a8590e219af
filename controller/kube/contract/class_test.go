package contract_test

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

func claim(spoil func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	name := "fast"
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "41d7"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &name,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1500M")},
			},
		},
	}
	if spoil != nil {
		spoil(c)
	}
	return c
}

func TestCheckSupported(t *testing.T) {
	name := "gold"
	block, file := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	modes := func(m ...corev1.PersistentVolumeAccessMode) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = m }
	}
	for name, row := range map[string]struct {
		spoil func(*corev1.PersistentVolumeClaim)
		want  string // in the error; empty means offered
	}{
		"attributes":       {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &name }, "without it"},
		"no attributes":    {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new(string) }, ""},
		"plain":            {nil, ""},
		"filesystem":       {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &file }, ""},
		"block":            {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, "use volumeMode Filesystem"},
		"many writers":     {modes(corev1.ReadWriteMany), "use ReadWriteOnce"},
		"many readers":     {modes(corev1.ReadOnlyMany), "ReadOnlyMany is not supported"},
		"one pod":          {modes(corev1.ReadWriteOncePod), "ReadWriteOncePod is not supported"},
		"one of two modes": {modes(corev1.ReadWriteOnce, corev1.ReadWriteMany), "ReadWriteMany is not supported"},
		"selector":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector is not supported"},
		"clone": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
		}, "whose new volumes are empty"},
		"populator": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "Backup", Name: "other"}
		}, `dataSource Backup "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := contract.CheckSupported(claim(row.spoil), contract.Own(false).Modes)
			switch {
			case row.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("got %v, want words %q", err, row.want)
			}
		})
	}
}

func TestPopulated(t *testing.T) {
	core, snapshots, other := "", "snapshot.storage.k8s.io", "cdi.kubevirt.io"
	for what, row := range map[string]struct {
		source *corev1.TypedLocalObjectReference
		ref    *corev1.TypedObjectReference
		want   bool
	}{
		"nothing":                {nil, nil, false},
		"claim":                  {&corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim"}, nil, false},
		"claim, by reference":    {nil, &corev1.TypedObjectReference{APIGroup: &core, Kind: "PersistentVolumeClaim"}, false},
		"snapshot":               {&corev1.TypedLocalObjectReference{APIGroup: &snapshots, Kind: "VolumeSnapshot"}, nil, false},
		"snapshot, by reference": {nil, &corev1.TypedObjectReference{APIGroup: &snapshots, Kind: "VolumeSnapshot"}, false},
		"import":                 {nil, &corev1.TypedObjectReference{APIGroup: &other, Kind: "VolumeImportSource"}, true},
		"import, by older field": {&corev1.TypedLocalObjectReference{APIGroup: &other, Kind: "VolumeImportSource"}, nil, true},
		"another's claims":       {nil, &corev1.TypedObjectReference{APIGroup: &other, Kind: "PersistentVolumeClaim"}, true},
		"another's snapshots":    {nil, &corev1.TypedObjectReference{APIGroup: &other, Kind: "VolumeSnapshot"}, true},
		"another snapshot kind":  {nil, &corev1.TypedObjectReference{APIGroup: &snapshots, Kind: "VolumeGroupSnapshot"}, true},
		"a snapshot in no group": {nil, &corev1.TypedObjectReference{Kind: "VolumeSnapshot"}, true},
	} {
		c := claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource, c.Spec.DataSourceRef = row.source, row.ref })
		if got := contract.Populated(c); got != row.want {
			t.Errorf("%s: populated: %v", what, got)
		}
	}
}

func TestOfferedByShape(t *testing.T) {
	for _, row := range []struct {
		mode          corev1.PersistentVolumeAccessMode
		hostPath, csi string // words of the refusal
	}{
		{corev1.ReadWriteOnce, "", ""},
		{corev1.ReadWriteOncePod, "use ReadWriteOnce", ""},
		{corev1.ReadWriteMany, "use ReadWriteOnce", "use ReadWriteOnce or ReadWriteOncePod"},
		{corev1.ReadOnlyMany, "use ReadWriteOnce", "use ReadWriteOnce or ReadWriteOncePod"},
	} {
		c := claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{row.mode}
		})
		for _, shape := range []struct {
			offered []corev1.PersistentVolumeAccessMode
			want    string
		}{{contract.Own(false).Modes, row.hostPath}, {contract.CSIModes, row.csi}} {
			err := contract.CheckSupported(c, shape.offered)
			if (err == nil) != (shape.want == "") || err != nil && !strings.HasSuffix(err.Error(), shape.want) {
				t.Errorf("%s of %v: %v, want %q", row.mode, shape.offered, err, shape.want)
			}
		}
	}
}

func TestDirectory(t *testing.T) {
	const pv = "pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	long := strings.Repeat("a", 253)
	for _, row := range []struct {
		claim  string
		prefix bool
		want   string
	}{
		{"data", false, pv},
		{"data", true, "data-" + pv},
		{long, false, pv},
		{long, true, long[:255-len(pv)-1] + "-" + pv},
	} {
		got := contract.Directory(pv, row.claim, row.prefix)
		if got != row.want || len(got) > 255 {
			t.Errorf("Directory(%.10s…, %v) = %q (%d bytes), want %q", row.claim, row.prefix, got, len(got), row.want)
		}
	}
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("n", 64)
	for node, want := range map[string]string{
		"node-01":               "node-01",
		strings.Repeat("n", 63): strings.Repeat("n", 63),
	} {
		if got := contract.LabelValue(node); got != want {
			t.Errorf("LabelValue(%q) = %q", node, got)
		}
	}
	a, b := contract.LabelValue(long), contract.LabelValue(long+"x")
	if a == b {
		t.Errorf("two long names share the label %q", a)
	}
	for _, v := range []string{a, b} {
		if errs := validation.IsValidLabelValue(v); len(errs) > 0 {
			t.Errorf("%q is no label value: %v", v, errs)
		}
	}
}

func TestLeaving(t *testing.T) {
	remove, retain := corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain
	for _, row := range []struct {
		phase             corev1.PersistentVolumePhase
		policy            corev1.PersistentVolumeReclaimPolicy
		deleted           bool
		released, leaving bool
	}{
		{corev1.VolumeBound, remove, false, false, false},
		{corev1.VolumeBound, retain, true, false, true},
		{corev1.VolumeAvailable, remove, false, false, false},
		{corev1.VolumeReleased, remove, false, true, true},
		{corev1.VolumeReleased, retain, false, true, false},
		{corev1.VolumeFailed, remove, false, true, true},
		{corev1.VolumeFailed, retain, false, true, false},
		{"", remove, false, false, false},
	} {
		pv := &corev1.PersistentVolume{}
		pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = row.phase, row.policy
		if row.deleted {
			pv.DeletionTimestamp = &metav1.Time{}
		}
		if contract.Released(pv) != row.released || contract.Leaving(pv) != row.leaving {
			t.Errorf("%+v: released %v, leaving %v", row, contract.Released(pv), contract.Leaving(pv))
		}
	}
}

func TestHostPathPV(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	sc := &storagev1.StorageClass{
		Provisioner: contract.HostPathProvisioner, ReclaimPolicy: &retain,
	}
	at := contract.Place{Node: "node-01", Hostname: "host-a", Pool: "6e0c"}
	own := contract.Own(false)
	pv := own.PV("pvc-41d7", "/var/hpvolumes/pvc-41d7", claim(nil), sc, at, contract.ReclaimPolicy("", sc))

	if got := pv.Spec.HostPath; got.Path != "/var/hpvolumes/pvc-41d7" || *got.Type != corev1.HostPathDirectory {
		t.Errorf("source %+v: want the path, of type Directory", got)
	}
	if got := pv.Spec.Capacity[corev1.ResourceStorage]; got.String() != "1500M" {
		t.Errorf("capacity %s, want the request 1500M", got.String())
	}
	if pv.Spec.PersistentVolumeReclaimPolicy != retain || pv.Spec.StorageClassName != "fast" {
		t.Errorf("the class is not honoured: %+v", pv.Spec)
	}
	if got := contract.Hostname(pv); got != "host-a" {
		t.Errorf("affinity names %q, want the hostname label", got)
	}
	for key, want := range map[string]string{
		"hostPathProvisionerIdentity":           "kubevirt.io/hostpath-provisioner",
		"kubevirt.io/provisionOnNode":           "node-01",
		"pv.kubernetes.io/provisioned-by":       "kubevirt.io/hostpath-provisioner",
		"hostpath-provisioner.kubevirt.io/pool": "6e0c",
	} {
		if got := pv.Annotations[key]; got != want {
			t.Errorf("annotation %s = %q, want %q", key, got, want)
		}
	}
	if pv.Labels["hostpath-provisioner.kubevirt.io/node"] != "node-01" {
		t.Errorf("labels %v", pv.Labels)
	}
}

func TestReclaimPolicy(t *testing.T) {
	retain, remove := corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	for _, row := range []struct {
		given corev1.PersistentVolumeReclaimPolicy
		class *corev1.PersistentVolumeReclaimPolicy
		want  corev1.PersistentVolumeReclaimPolicy
	}{{"", nil, remove}, {"", &retain, retain}, {remove, &retain, remove}, {retain, nil, retain}} {
		if got := contract.ReclaimPolicy(row.given, &storagev1.StorageClass{ReclaimPolicy: row.class}); got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 700: "700 bytes", 1024: "1Ki", 10 << 30: "10Gi", 1500 << 20: "1500Mi", 13207024435: "12.3Gi",
		1 << 60: "1Ei", 1000: "1000 bytes", 123456: "120.6Ki",
	} {
		if got := contract.Size(bytes); got != want {
			t.Errorf("Size(%d) = %q, want %q", bytes, got, want)
		}
	}
}

// Sizes that no int64 holds neither wrap nor become 0.
func TestWholeBytes(t *testing.T) {
	for size, want := range map[string]int64{
		"1Gi": 1 << 30, "1500m": 2, "0": 0, "-5": 0, "-10E": 0, "1e-3": 1,
		"9223372036854775806": math.MaxInt64 - 1, "9223372036854775807": math.MaxInt64, "9223372036854775808": math.MaxInt64,
		"8Ei": math.MaxInt64, "10E": math.MaxInt64, "1e30": math.MaxInt64, "10000000P": math.MaxInt64,
		"18446744073709551617": math.MaxInt64, "18446744074783293440": math.MaxInt64, "36893488147419103232.5": math.MaxInt64,
	} {
		q := resource.MustParse(size)
		if got := contract.WholeBytes(&q); got != want {
			t.Errorf("%s: %d, want %d", size, got, want)
		}
	}
}

// The rule of older provisioners, for those who compare with df.
func TestWholeDisk(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, row := range []struct{ total, asked, want int64 }{
		{270553174016, gib, 251 * gib}, // 251.97 GiB
		{10 * gib, gib, 10 * gib},
		{10*gib - 1, gib, 10239 * mib},
		{10 * mib, mib, 10 * mib},
		{10*mib - 1, mib, 10*mib - 1},
		{5 * gib, 7*gib + 1, 7*gib + 1}, // allocated more than once
	} {
		if got := contract.WholeDisk(row.total, row.asked); got.Value() != row.want {
			t.Errorf("WholeDisk(%d, %d) = %d, want %d", row.total, row.asked, got.Value(), row.want)
		}
	}
}

func TestProvisioned(t *testing.T) {
	const pv = "pvc-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	for name, want := range map[string]struct {
		pv string
		is bool
	}{
		pv:                                {pv, true},
		"data-" + pv:                      {pv, true},
		"ns-data-" + pv:                   {pv, true},
		pv + "_ns_data":                   {pv, true},
		pv + "_data":                      {},
		"csi-" + strings.Repeat("0a", 32): {"", true},
		"csi-" + strings.Repeat("0a", 31): {},
		"data":                            {},
		"pvc-data":                        {},
		pv + ".bak":                       {},
		"-" + pv:                          {},
		strings.ToUpper(pv):               {},
	} {
		if got, is := contract.Provisioned(name); got != want.pv || is != want.is {
			t.Errorf("%s: PV %q, %v, want %q, %v", name, got, is, want.pv, want.is)
		}
	}
}

// The operator and the agents publish capacity for the same classes.
func TestPublishedPool(t *testing.T) {
	wait, atOnce := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	for name, row := range map[string]struct {
		provisioner string
		mode        *storagev1.VolumeBindingMode
		parameters  map[string]string
		want        string // "": no object
	}{
		"no parameters":     {contract.CSIProvisioner, &wait, nil, "legacy"},
		"a pool":            {contract.CSIProvisioner, &wait, map[string]string{"storagePool": "fast"}, "fast"},
		"an empty pool":     {contract.CSIProvisioner, &wait, map[string]string{"storagePool": ""}, "legacy"},
		"a filesystem":      {contract.CSIProvisioner, &wait, map[string]string{"csi.storage.k8s.io/fstype": "xfs"}, "legacy"},
		"misspelt":          {contract.CSIProvisioner, &wait, map[string]string{"storagepool": "fast"}, "legacy"},
		"binds at once":     {contract.CSIProvisioner, &atOnce, nil, ""},
		"no mode":           {contract.CSIProvisioner, nil, nil, ""},
		"hostPath":          {contract.HostPathProvisioner, &wait, nil, ""},
		"another's":         {"example.com/x", &wait, map[string]string{"storagePool": "fast"}, ""},
		"another's at once": {"example.com/x", &atOnce, nil, ""},
	} {
		c := &storagev1.StorageClass{Provisioner: row.provisioner, VolumeBindingMode: row.mode, Parameters: row.parameters}
		if got, ok := contract.PublishedPool(c, contract.CSIProvisioner); got != row.want || ok != (row.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, row.want)
		}
	}
}

// Capacity is of a node that exists, or for those that an autoscaler may add.
func TestCapacityNode(t *testing.T) {
	for name, row := range map[string]struct {
		labels   map[string]string // nil: no topology
		node     string
		template bool
	}{
		"a node":                  {map[string]string{contract.TopologyNode: "node-01"}, "node-01", false},
		"everywhere":              {nil, "", false},
		"another key":             {map[string]string{"topology.kubernetes.io/zone": "a"}, "", false},
		"template":                {map[string]string{contract.LabelTemplateNode: "true"}, "", true},
		"template of a group":     {map[string]string{contract.LabelTemplateNode: "true", "group": "big"}, "", true},
		"template made of a node": {map[string]string{contract.LabelTemplateNode: "true", contract.TopologyNode: "node-01"}, "", true},
		"no template":             {map[string]string{contract.LabelTemplateNode: "false", contract.TopologyNode: "node-01"}, "node-01", false},
	} {
		o := &storagev1.CSIStorageCapacity{}
		if row.labels != nil {
			o.NodeTopology = &metav1.LabelSelector{MatchLabels: row.labels}
		}
		if node, template := contract.CapacityNode(o), contract.OfTemplateNode(o); node != row.node || template != row.template {
			t.Errorf("%s: node %q, template %v; want %q, %v", name, node, template, row.node, row.template)
		}
	}
}
