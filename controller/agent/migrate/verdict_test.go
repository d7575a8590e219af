package migrate

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

const (
	pvName = "pvc-41d7"
	mib    = int64(1) << 20
)

// openPool is a pool of the name "local" in a directory of its own.
func openPool(t *testing.T) *volume.Pool {
	t.Helper()
	pool, err := volume.New(volume.Config{Name: "local", Path: t.TempDir() + "/pool"})
	if err == nil {
		err = pool.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// older is the PV of the provisioner before this one: the whole disk's size, and a path without a
// type.
func older() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: pvName, UID: "old-uid", ResourceVersion: "7",
			Finalizers: []string{"kubernetes.io/pv-protection", contract.Finalizer},
			Labels:     map[string]string{"app": "db", contract.LabelNode: "node-01"},
			Annotations: map[string]string{
				contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnIdentity: contract.HostPathProvisioner,
				contract.AnnProvisionOnNode: "node-01", "backup": "daily", corev1.LastAppliedConfigAnnotation: "{}",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "fast",
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("251Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/pool/" + pvName}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "41d7", ResourceVersion: "5"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

func claimOf(size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "41d7"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: pvName, Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

func ordinary(pool *volume.Pool) subject {
	return subject{pv: older(), claim: claimOf("10Mi"), pool: pool,
		v: volume.Volume{Record: record.Record{Name: pvName, State: record.Bound, Bytes: 10 * mib}, Path: pool.Path() + "/" + pvName}}
}

// nodePVs are the PVs of a node whose hostname is not its name. Each that may be made is valid.
type nodePVs struct {
	PVs
	invalid error // why no PV is valid
	// unserved is what the agent serves no PVs of: toCSI or toHostPath.
	unserved string
}

func (n nodePVs) Serves(pv *corev1.PersistentVolume) bool {
	if pv.Spec.CSI != nil {
		return n.unserved != toCSI
	}
	return n.unserved != toHostPath
}

func (nodePVs) IsForeign(pv *corev1.PersistentVolume) bool { return contract.OfOther(pv) }
func (nodePVs) At(pool *volume.Pool) contract.Place {
	return contract.Place{Node: "node-01", Hostname: "host-a", Pool: pool.ID()}
}
func (n nodePVs) ValidateReturn(*corev1.PersistentVolume, volume.Volume) error { return n.invalid }

func served(mode settings.MigrateMode) *node {
	noUser := func(*corev1.PersistentVolumeClaim) (string, error) { return "", nil }
	return &node{mode: mode, driver: contract.CSIProvisioner, name: "node-01", localUser: noUser, remoteUser: noUser, pvs: nodePVs{},
		unserved: func() error { return nil }}
}

// Each row spoils one thing of a PV that may be moved.
func TestVerdict(t *testing.T) {
	pool := openPool(t)
	annotate := func(value string) func(*subject, *node) {
		return func(s *subject, _ *node) { s.pv.Annotations[contract.AnnMigrate] = value }
	}
	onPV := func(edit func(*corev1.PersistentVolume)) func(*subject, *node) {
		return func(s *subject, _ *node) { edit(s.pv) }
	}
	released := func(policy corev1.PersistentVolumeReclaimPolicy) func(*subject, *node) {
		return func(s *subject, _ *node) {
			s.claim, s.pv.Status.Phase, s.pv.Spec.PersistentVolumeReclaimPolicy = nil, corev1.VolumeReleased, policy
		}
	}
	block := corev1.PersistentVolumeBlock
	for name, row := range map[string]struct {
		mode  settings.MigrateMode
		spoil func(*subject, *node)
		want  Verdict
		words string
	}{
		"ordinary":           {settings.MigrateRun, nil, Ready, ""},
		"planned":            {settings.MigratePlan, nil, Ready, ""},
		"back":               {settings.MigrateBack, nil, Left, ""},
		"only annotated":     {settings.MigrateAnnotated, nil, Left, ""},
		"annotated":          {settings.MigrateAnnotated, annotate("run"), Ready, ""},
		"annotation off":     {settings.MigrateRun, annotate("off"), Left, ""},
		"annotation back":    {settings.MigrateRun, annotate("back"), Left, ""},
		"annotation unknown": {settings.MigrateRun, annotate("yes"), Refused, `"yes"`},
		"another path": {settings.MigrateRun, func(s *subject, _ *node) { s.err = errors.New("not right below the pool's") },
			Refused, "right below"},
		"pool not ready": {settings.MigrateRun, func(s *subject, _ *node) { s.err = volume.ErrNotReady }, Waiting, "not ready"},
		"no record yet":  {settings.MigrateRun, func(s *subject, _ *node) { s.err = volume.ErrNotFound }, Waiting, "no such volume"},
		"long name": {settings.MigrateRun, func(s *subject, _ *node) { s.v.Name = strings.Repeat("a", 129) },
			Refused, "129 bytes"},
		"too long for the journal": {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) {
			pv.Annotations["backup.example.com/state"] = strings.Repeat("x", 300_000)
		}),
			Refused, "the record would have"},
		"of another provisioner": {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) {
			pv.Annotations[contract.AnnProvisionedBy], pv.Annotations[contract.AnnMigrate] = "hostpath", "off"
		}), Left, "10485760 bytes stay allocated"},
		"mount option": {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"data=ordered"} }), Refused, "data=ordered"},
		"fit option":   {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime"} }), Ready, ""},
		"block":        {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = &block }), Refused, "Block"},
		"many writers": {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Spec.AccessModes[0] = corev1.ReadWriteMany }), Refused, "ReadWriteMany"},
		"deleted":      {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} }), Refused, "being deleted"},
		"finalizer":    {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Finalizers = append(pv.Finalizers, "example.com/keep") }), Refused, "example.com/keep"},
		"no policy": {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Annotations[contract.AnnPolicy] = "Keep" }),
			Refused, `reclaim-policy is "Keep"`},
		"failed":         {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeFailed }), Refused, "Failed"},
		"pending":        {settings.MigrateRun, onPV(func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumePending }), Waiting, "not bound"},
		"missing":        {settings.MigrateRun, func(s *subject, _ *node) { s.v.Missing = true }, Refused, "is missing"},
		"claim gone":     {settings.MigrateRun, func(s *subject, _ *node) { s.claim = nil }, Refused, "default/data is gone"},
		"claim deleted":  {settings.MigrateRun, func(s *subject, _ *node) { s.claim.DeletionTimestamp = &metav1.Time{} }, Refused, "being deleted"},
		"claim of other": {settings.MigrateRun, func(s *subject, _ *node) { s.claim.Spec.VolumeName = "other" }, Refused, `"other"`},
		"claim lost":     {settings.MigrateRun, func(s *subject, _ *node) { s.claim.Status.Phase = corev1.ClaimLost }, Waiting, "Lost"},
		"kept":           {settings.MigrateRun, released(corev1.PersistentVolumeReclaimRetain), Ready, ""},
		"going":          {settings.MigrateRun, released(corev1.PersistentVolumeReclaimDelete), Refused, "will be deleted"},
		"no driver":      {settings.MigrateRun, func(_ *subject, n *node) { n.unserved = func() error { return errors.New("no CSIDriver") } }, Waiting, "no CSIDriver"},
		"used": {settings.MigrateRun, func(_ *subject, n *node) {
			n.localUser = func(*corev1.PersistentVolumeClaim) (string, error) { return "default/db-0", nil }
		}, Waiting, "pod default/db-0"},
		"used elsewhere, and no node": {settings.MigrateRun, func(s *subject, n *node) {
			s.pv.Spec.NodeAffinity = nil
			n.remoteUser = func(*corev1.PersistentVolumeClaim) (string, error) { return "pod default/db-0 on node node-02", nil }
		}, Waiting, "a directory of that node"},
		"pods unknown": {settings.MigrateRun, func(_ *subject, n *node) {
			n.localUser = func(*corev1.PersistentVolumeClaim) (string, error) { return "", errors.New("forbidden") }
		}, Waiting, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := ordinary(pool), served(row.mode)
			if row.spoil != nil {
				row.spoil(&s, n)
			}
			_, next, verdict, reason := n.verdict(s)
			if verdict != row.want || !strings.Contains(reason, row.words) || (verdict == Ready) != (next != nil && reason == "") {
				t.Errorf("%s: %q, want %s with %q", verdict, reason, row.want, row.words)
			}
		})
	}
}

// The PV that is made has what others wrote on the old one, and nothing of the old provisioner.
func TestNewPV(t *testing.T) {
	pool := openPool(t)
	s := ordinary(pool)
	_, pv, _, _ := served(settings.MigrateRun).verdict(s)
	want := map[string]string{
		contract.AnnProvisionedBy: contract.CSIProvisioner, contract.AnnPool: pool.ID(), contract.AnnReplaces: "old-uid",
		contract.AnnPolicy: "Delete", "backup": "daily",
	}
	if len(pv.Annotations) != len(want) {
		t.Errorf("annotations %v, want %v", pv.Annotations, want)
	}
	for key, value := range want {
		if pv.Annotations[key] != value {
			t.Errorf("annotation %s is %q, want %q", key, pv.Annotations[key], value)
		}
	}
	c := pv.Spec.CSI
	if pv.Name != pvName || pv.UID != "" || pv.ResourceVersion != "" || len(pv.Finalizers) != 0 || pv.Labels["app"] != "db" ||
		c == nil || c.FSType != "" || c.VolumeHandle != pvName || c.VolumeAttributes["storagePool"] != "local" ||
		pv.Spec.HostPath != nil || contract.TopologyOf(pv) != "node-01" || pv.Spec.StorageClassName != "fast" {
		t.Errorf("PV %+v", pv)
	}
	if ref := pv.Spec.ClaimRef; ref.UID != "41d7" || ref.ResourceVersion != "" {
		t.Errorf("claimRef %+v", ref)
	}
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("policy %s: nothing may delete the volume yet", pv.Spec.PersistentVolumeReclaimPolicy)
	}
}

// The old PV's capacity is the whole disk's.
func TestSize(t *testing.T) {
	pool := openPool(t)
	for name, row := range map[string]struct {
		edit func(*subject)
		want string
	}{
		"as asked for":                        {func(*subject) {}, "10Mi"},
		"asked for in another form":           {func(s *subject) { s.claim, s.v.Bytes = claimOf("10M"), 10_000_000 }, "10M"},
		"grown, then less asked for":          {func(s *subject) { s.v.Bytes = 20 * mib }, "20Mi"},
		"a growth that is refused":            {func(s *subject) { s.claim = claimOf("10Ti") }, "10Mi"},
		"adopted, nothing is allocated":       {func(s *subject) { s.v.Bytes = 0 }, "10Mi"},
		"nothing is allocated, and a growth ": {func(s *subject) { s.claim, s.v.Bytes = claimOf("10Ti"), 0 }, "251Gi"},
		"no claim":                            {func(s *subject) { s.claim = nil }, "10Mi"},
		"no claim, nothing allocated":         {func(s *subject) { s.claim, s.v.Bytes = nil, 0 }, "251Gi"},
	} {
		s := ordinary(pool)
		row.edit(&s)
		if got := size(s); got.String() != row.want {
			t.Errorf("%s: %s, want %s", name, got.String(), row.want)
		}
	}
}

// A PV that was promised to stay with its policy Retain gets no other by a later migration.
func TestPromisedRetain(t *testing.T) {
	pool := openPool(t)
	s := ordinary(pool)
	was := older()
	was.Spec.HostPath.Path = s.v.Path
	old, err := encodePV(was)
	if err != nil {
		t.Fatal(err)
	}
	s.pv = contract.MigratedCSIPV(was, contract.CSIProvisioner, pvName, "local", resource.MustParse("10Mi"), contract.Place{Node: "node-01", Pool: pool.ID()})
	s.pv.UID, s.pv.Status.Phase = "new-uid", corev1.VolumeBound // as an older version left it, given to another claim
	s.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "restored", UID: "77"}
	s.claim.Namespace, s.claim.Name, s.claim.UID = "shop", "restored", "77"
	s.v.Migration = &record.Migration{Step: record.MigrationDone, To: toCSI, Old: old, Stopped: "claim default/data was deleted during the migration"}
	_, next, verdict, reason := served(settings.MigrateBack).verdict(s)
	if verdict != Ready {
		t.Fatalf("%s: %s", verdict, reason)
	}
	if p := contract.Policy(next); p != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("it gets the policy %s", p)
	}
}

// There and back gives the same PV, but for what was written on it meanwhile.
func TestThereAndBack(t *testing.T) {
	pool := openPool(t)
	s := ordinary(pool)
	_, csi, _, _ := served(settings.MigrateRun).verdict(s)
	old, err := encodePV(s.pv)
	if err != nil {
		t.Fatal(err)
	}
	csi.UID, csi.Status.Phase = "csi-uid", corev1.VolumeBound
	csi.Annotations["seen"] = "yes"
	csi.Spec.StorageClassName, csi.Spec.AccessModes = "other", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	csi.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("20Mi")
	s.pv, s.v.Migration = csi, &record.Migration{Step: record.MigrationDone, To: toCSI, Old: old}
	if _, _, verdict, _ := served(settings.MigrateRun).verdict(s); verdict != Migrated {
		t.Errorf("%s, want %s", verdict, Migrated)
	}
	s.mountedAt = "/var/lib/kubelet/pods/x"
	if _, _, verdict, reason := served(settings.MigrateBack).verdict(s); verdict != Waiting || !strings.Contains(reason, "is mounted at") {
		t.Errorf("mounted: %s, %s", verdict, reason)
	}
	s.mountedAt = ""
	to, back, verdict, reason := served(settings.MigrateBack).verdict(s)
	if to != toHostPath || verdict != Ready {
		t.Fatalf("to %q: %s, %s", to, verdict, reason)
	}
	if back.Spec.CSI != nil || back.Spec.HostPath.Path != s.v.Path {
		t.Errorf("source %+v", back.Spec.PersistentVolumeSource)
	}
	if back.Spec.StorageClassName != "other" || len(back.Spec.AccessModes) != 1 || back.Spec.AccessModes[0] != corev1.ReadWriteOncePod {
		t.Errorf("class %s, access modes %v, want those of the CSI PV", back.Spec.StorageClassName, back.Spec.AccessModes)
	}
	if got := back.Spec.Capacity.Storage().String(); got != "20Mi" {
		t.Errorf("capacity %s, want what the CSI PV has", got)
	}
	for key, value := range map[string]string{
		contract.AnnProvisionedBy: contract.HostPathProvisioner, contract.AnnIdentity: contract.HostPathProvisioner,
		contract.AnnProvisionOnNode: "node-01", "seen": "yes", contract.AnnReplaces: "csi-uid", contract.AnnPolicy: "Delete",
	} {
		if back.Annotations[key] != value {
			t.Errorf("annotation %s is %q, want %q", key, back.Annotations[key], value)
		}
	}
	n := served(settings.MigrateBack)
	n.pvs = nodePVs{invalid: errors.New("it names pool x")}
	if _, _, verdict, reason := n.verdict(s); verdict != Refused || !strings.Contains(reason, "it names pool x") {
		t.Errorf("not valid: %s, %s", verdict, reason)
	}
	// While it is under way, and after a kill, the same journal is looked at.
	s.v.Migration = &record.Migration{Step: record.MigrationPrepared, To: toHostPath, Before: s.v.Migration}
	if to, _, verdict, reason := served(settings.MigrateBack).verdict(s); to != toHostPath || verdict != Ready {
		t.Errorf("under way, to %q: %s, %s", to, verdict, reason)
	}
}
