package recovery

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scene is a volume whose PV and claim are gone, in the cluster that it was made in. Each test changes
// one thing.
type scene struct {
	v Volume
	f Facts
	o Options
}

func lost() scene {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{contract.AnnPool: "pool-1"}}}
	pv.Spec.StorageClassName = "fast"
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.CSIProvisioner, VolumeHandle: "pvc-1"}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data"}
	return scene{
		v: Volume{Pool: "/pool", PoolUUID: "pool-1", Name: "pvc-1", PVName: "pvc-1", Namespace: "shop", Claim: "data", ClaimUID: "old", Created: created,
			Cluster: "here", Policy: "Delete", Objects: &Objects{PV: pv}},
		f: Facts{Here: "here", Namespace: namespace("shop", created.Add(-time.Hour))},
	}
}

func namespace(name string, at time.Time) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at)}}
}

// inNamespace has a namespace that was created so long after the volume, with its UID; had is the one that
// the volume's record has.
func (s *scene) inNamespace(had, uid string, after time.Duration) {
	s.v.NamespaceUID, s.f.Namespace = had, namespace("shop", created.Add(after))
	s.f.Namespace.UID = types.UID(uid)
}

// pending has a claim of the volume's name that waits.
func (s *scene) pending() *corev1.PersistentVolumeClaim {
	class := "fast"
	s.f.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "new"}}
	s.f.Claim.Spec.StorageClassName = &class
	s.f.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	s.f.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	s.f.Claim.Status.Phase = corev1.ClaimPending
	return s.f.Claim
}

// pv has a PV of the volume's name, as recovery makes it.
func (s *scene) pv() *corev1.PersistentVolume {
	s.f.PV = s.v.Objects.PV.DeepCopy()
	s.f.PV.UID = "its PV"
	return s.f.PV
}

// kept makes the volume one that was deleted, and that its pool keeps.
func (s *scene) kept() { s.v.Kept, s.v.PVUID = "ID", "its PV" }

// fromBackup has the volume's claim, applied before its PV, with what an importer wrote to it.
func (s *scene) fromBackup(phase string) {
	s.pending().Spec.VolumeName = "pvc-1"
	s.f.Claim.Annotations = map[string]string{"cdi.kubevirt.io/storage.import.endpoint": "https://images"}
	if phase != "" {
		s.f.Claim.Annotations["cdi.kubevirt.io/storage.pod.phase"] = phase
	}
}

// bound has both, Bound to each other.
func (s *scene) bound() {
	s.pending().Spec.VolumeName = "pvc-1"
	s.pv().Spec.ClaimRef.UID = "new"
	s.f.PV.Status.Phase = corev1.VolumeBound
}

// inDirectory makes the PV one of another provisioner, which names a directory and no pool.
func (s *scene) inDirectory(path string) {
	s.f.PV.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	s.f.PV.Annotations = nil
}

func TestDecide(t *testing.T) {
	now := &metav1.Time{Time: created}
	for what, row := range map[string]struct {
		edit func(*scene)
		want Verdict
		why  string // part of it; of a volume that is Made, the writes
	}{
		"both are gone":                        {func(*scene) {}, Made, "create+PV"},
		"killed after the claim":               {func(s *scene) { s.pending().Spec.VolumeName = "pvc-1" }, Made, "+PV"},
		"killed after the PV":                  {func(s *scene) { s.pending().Spec.VolumeName = "pvc-1"; s.pv() }, Made, "+"},
		"killed while they are bound":          {func(s *scene) { s.bound(); s.f.PV.Status.Phase = corev1.VolumeAvailable }, Made, "+"},
		"the PV first":                         {func(s *scene) { s.pv() }, Made, "create+"},
		"the PV first, and a claim that waits": {func(s *scene) { s.pv(); s.pending() }, Made, "name volume+"},
		"a Lost claim":                         {func(s *scene) { s.pending().Spec.VolumeName = "pvc-1"; s.f.Claim.Status.Phase = corev1.ClaimLost }, Made, "+PV"},
		"a claim of a backup, to import": {func(s *scene) { s.fromBackup("") }, Left,
			"names the volume's PV, and must not get it: it has annotations of cdi.kubevirt.io"},
		"a claim of a backup, half imported":   {func(s *scene) { s.fromBackup("Running") }, Left, "import over the data"},
		"a claim of a backup, imported":        {func(s *scene) { s.fromBackup("Succeeded") }, Made, "+PV"},
		"a Lost claim, to import":              {func(s *scene) { s.fromBackup(""); s.f.Claim.Status.Phase = corev1.ClaimLost }, Made, "+PV"},
		"kept: a claim of a backup, to import": {func(s *scene) { s.kept(); s.fromBackup("") }, Left, "import over the data"},
		"both are there":                       {func(s *scene) { s.bound() }, There, ""},
		"both are there, of another cluster":   {func(s *scene) { s.bound(); s.v.Cluster = "there" }, There, ""},
		"a StatefulSet's claim waits":          {func(s *scene) { s.pending() }, Made, "name volume+PV"},

		"the directory is missing":     {func(s *scene) { s.v.Problem = "its directory is missing" }, Left, "directory is missing"},
		"missing, and both are there":  {func(s *scene) { s.bound(); s.v.Problem = "its directory is missing" }, Left, "directory is missing"},
		"no claim is known":            {func(s *scene) { s.v.Claim = "" }, Left, "is not known"},
		"no namespace is known":        {func(s *scene) { s.v.Namespace = "" }, Left, "is not known"},
		"nor with another namespace":   {func(s *scene) { s.v.Namespace, s.o.ToNamespace = "", "other" }, Left, "is not known"},
		"no cluster is known":          {func(s *scene) { s.v.Cluster = "" }, Left, "names no cluster"},
		"no cluster, and none is told": {func(s *scene) { s.v.Cluster, s.f.Here = "", "" }, Left, "names no cluster"},
		"another cluster":              {func(s *scene) { s.v.Cluster = "there" }, Left, "--from-cluster=there"},
		"another cluster than named":   {func(s *scene) { s.v.Cluster, s.o.FromCluster = "there", "elsewhere" }, Left, "--from-cluster=there"},
		"this cluster is not known":    {func(s *scene) { s.f.Here = "" }, Left, "identity of this cluster"},
		"the cluster that is named":    {func(s *scene) { s.v.Cluster, s.o.FromCluster = "there", "there" }, Made, "create+PV"},
		"this one beside the named":    {func(s *scene) { s.o.FromCluster = "there" }, Made, "create+PV"},

		"the namespace is missing":              {func(s *scene) { s.f.Namespace = nil }, Left, "does not exist"},
		"it is being deleted":                   {func(s *scene) { s.f.Namespace.DeletionTimestamp = now }, Left, "being deleted"},
		"it was made again":                     {func(s *scene) { s.f.Namespace = namespace("shop", created.Add(time.Second)) }, Left, "another tenant"},
		"it is the same, and its time is later": {func(s *scene) { s.inNamespace("a", "a", time.Hour) }, Made, "create+PV"},
		"it was made again, and its time is earlier": {func(s *scene) { s.inNamespace("b", "a", -time.Hour) }, Left,
			"has UID a, and that of the volume's claim had b: it may be of another tenant; if it is not, use -n shop --to-namespace=shop"},
		"it was made again, and is the tenant's": {func(s *scene) { s.inNamespace("b", "a", time.Hour); s.o.ToNamespace = "shop" }, Made, "create+PV"},
		"its UID is not recorded":                {func(s *scene) { s.inNamespace("", "a", time.Hour) }, Left, "was created at"},
		"its UID is not known":                   {func(s *scene) { s.inNamespace("b", "", time.Hour) }, Left, "was created at"},
		"its UID differs, in a new cluster": {func(s *scene) {
			s.inNamespace("b", "a", time.Hour)
			s.v.Cluster, s.o.FromCluster = "x", "x"
		}, Made, "create+PV"},
		"this cluster is named, its UID differs": {func(s *scene) { s.inNamespace("b", "a", -time.Hour); s.o.FromCluster = "here" }, Left, "another tenant"},
		"it is the same, and is being deleted":   {func(s *scene) { s.inNamespace("a", "a", -time.Hour); s.f.Namespace.DeletionTimestamp = now }, Left, "being deleted"},
		"this cluster is named, made again":      {func(s *scene) { s.f.Namespace = namespace("shop", created.Add(time.Second)); s.o.FromCluster = "here" }, Left, "another tenant"},
		"it was made again, in a new one": {func(s *scene) {
			s.f.Namespace = namespace("shop", created.Add(1))
			s.v.Cluster, s.o.FromCluster = "x", "x"
		}, Made, "create+PV"},
		"another is named": {func(s *scene) {
			s.f.Namespace = namespace("b", created.Add(1))
			s.o.ToNamespace = "b"
			s.v.Objects.PV.Spec.ClaimRef.Namespace = "b"
		}, Made, "create+PV"},
		"another is named, and missing":    {func(s *scene) { s.f.Namespace, s.o.ToNamespace = nil, "b" }, Left, "namespace b does not exist"},
		"it may not be read: the caller's": {func(s *scene) { s.f.Namespace, s.f.Unread = nil, "forbidden" }, Made, "create+PV"},
		"made again while the node's clock was ahead": {func(s *scene) {
			s.v.Created, s.v.ClaimCreated = created.AddDate(1, 0, 0), created
			s.f.Namespace = namespace("shop", created.Add(time.Second))
		}, Left, "another tenant"},
		"the node's clock was behind":       {func(s *scene) { s.v.Created, s.v.ClaimCreated = created.AddDate(-9, 0, 0), created }, Made, "create+PV"},
		"the same second":                   {func(s *scene) { s.f.Namespace = namespace("shop", created) }, Made, "create+PV"},
		"made again, and another's cluster": {func(s *scene) { s.f.Namespace = namespace("shop", created.Add(1)); s.v.Cluster = "x" }, Left, "--from-cluster"},
		"a PV of another volume":            {func(s *scene) { s.pv().Spec.CSI.VolumeHandle = "pvc-2" }, Left, "another volume"},
		"a PV of another driver":            {func(s *scene) { s.pv().Spec.CSI.Driver = "other" }, Left, "another volume"},
		"both, of another driver":           {func(s *scene) { s.bound(); s.f.PV.Spec.CSI.Driver = "other" }, Left, "another volume"},
		"both, of its driver":               {func(s *scene) { s.bound(); s.f.Driver, s.f.PV.Spec.CSI.Driver = "own", "own" }, There, ""},
		"both, and its driver is another":   {func(s *scene) { s.bound(); s.f.Driver = "own" }, Left, "another volume"},
		"both, in its directory":            {func(s *scene) { s.bound(); s.inDirectory("/pool/pvc-1") }, There, ""},
		"both, in another of the name":      {func(s *scene) { s.bound(); s.inDirectory("/tmp/pvc-1") }, Left, "another volume"},
		"both, of a pool that was moved": {func(s *scene) {
			s.bound()
			s.inDirectory("/before/pvc-1")
			s.f.PV.Annotations = map[string]string{contract.AnnPool: "pool-1"}
		}, There, ""},
		"both, of no directory": {func(s *scene) {
			s.bound()
			s.f.PV.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Path: "/pool/pvc-1"}}
		}, Left, "another volume"},
		"a PV of another pool":          {func(s *scene) { s.pv().Annotations[contract.AnnPool] = "pool-2" }, Left, "another volume"},
		"a PV that goes":                {func(s *scene) { s.pv().DeletionTimestamp = now }, Left, "being deleted"},
		"a Released PV":                 {func(s *scene) { s.pv().Status.Phase = corev1.VolumeReleased }, Left, "kubectl patch pv pvc-1"},
		"a Released PV, and a claim":    {func(s *scene) { s.pv().Status.Phase = corev1.VolumeReleased; s.pending() }, Left, "kubectl patch pv pvc-1"},
		"a PV without claimRef":         {func(s *scene) { s.pv().Spec.ClaimRef = nil }, Left, "names no claim"},
		"a PV for another claim":        {func(s *scene) { s.pv().Spec.ClaimRef.Name = "other" }, Left, "is for claim shop/other"},
		"a PV for a claim that is gone": {func(s *scene) { s.pv().Spec.ClaimRef.UID = "gone" }, Left, "which is gone"},
		"a PV for a claim of the name":  {func(s *scene) { s.pv().Spec.ClaimRef.UID = "gone"; s.pending() }, Left, "which is gone"},
		"a claim that goes":             {func(s *scene) { s.pending().DeletionTimestamp = now }, Left, "claim shop/data is being deleted"},
		"a claim with another volume":   {func(s *scene) { s.pending().Spec.VolumeName = "pvc-2" }, Left, "has another volume, PV pvc-2"},
		"a claim that must not get it":  {func(s *scene) { s.pending().Spec.Selector = &metav1.LabelSelector{} }, Left, "selector"},
		"a Released PV of another claim": {func(s *scene) {
			s.pv().Status.Phase = corev1.VolumeReleased
			s.f.PV.Spec.ClaimRef.Namespace = "b"
		}, Left, "exists and is for claim b/data"},
		"a Released PV, and another namespace": {func(s *scene) {
			s.pv().Status.Phase = corev1.VolumeReleased
			s.f.Namespace, s.o.ToNamespace = namespace("b", created), "b"
		}, Left, "exists and is for claim shop/data"},
		"kept: both are gone":                 {func(s *scene) { s.kept() }, Made, "create+PV"},
		"kept: a StatefulSet's claim waits":   {func(s *scene) { s.kept(); s.pending() }, Made, "name volume+PV"},
		"kept: its own PV is Bound":           {func(s *scene) { s.kept(); s.bound() }, Made, "+"},
		"kept: a later PV is Bound":           {func(s *scene) { s.kept(); s.bound(); s.f.PV.UID = "later" }, Left, "not the one that the volume had"},
		"kept: its PV is another driver's":    {func(s *scene) { s.kept(); s.bound(); s.f.PV.Spec.CSI.Driver = "other" }, Left, "not the one that the volume had"},
		"kept: no PV's UID is known":          {func(s *scene) { s.kept(); s.bound(); s.v.PVUID = "" }, Left, "not the one that the volume had"},
		"kept: its PV is Bound in no pool":    {func(s *scene) { s.kept(); s.bound(); delete(s.f.PV.Annotations, contract.AnnPool) }, Left, "not the one that the volume had"},
		"kept: its PV is Released":            {func(s *scene) { s.kept(); s.pv().Status.Phase = corev1.VolumeReleased }, Left, "is Released, and its end"},
		"kept: its PV is Available":           {func(s *scene) { s.kept(); s.pv().Status.Phase = corev1.VolumeAvailable }, Left, "is Available, and its end"},
		"kept: its PV goes":                   {func(s *scene) { s.kept(); s.bound(); s.f.PV.DeletionTimestamp = now }, Left, "being deleted"},
		"kept: another cluster":               {func(s *scene) { s.kept(); s.v.Cluster = "there" }, Left, "--from-cluster=there"},
		"kept: the namespace was made again":  {func(s *scene) { s.kept(); s.f.Namespace = namespace("shop", created.Add(time.Second)) }, Left, "another tenant"},
		"kept: its UID differs":               {func(s *scene) { s.kept(); s.inNamespace("b", "a", -time.Hour) }, Left, "another tenant"},
		"kept: the claim has another volume":  {func(s *scene) { s.kept(); s.pending().Spec.VolumeName = "pvc-2" }, Left, "has another volume, PV pvc-2"},
		"kept: it cannot be read":             {func(s *scene) { s.kept(); s.v.Problem = "its record is damaged" }, Left, "damaged"},
		"a claim that waits, without objects": {func(s *scene) { s.pending(); s.v.Objects = nil }, Left, "no PV to compare"},
	} {
		s := lost()
		row.edit(&s)
		got := Decide(s.v, s.f, s.o)
		writes := string(got.ClaimWrite) + "+"
		if got.PVWrite {
			writes += "PV"
		}
		if got.Verdict != row.want || row.want != Made && !strings.Contains(got.Why, row.why) || row.want == Made && writes != row.why ||
			(got.Why == "") != (row.want != Left) || row.want != Made && writes != "+" {
			t.Errorf("%s: %+v, want %s with %q", what, got, row.want, row.why)
		}
	}
}

// A claim that waits gets the volume only if nothing else writes to it and it fits.
func TestPendingClaim(t *testing.T) {
	block, class := corev1.PersistentVolumeBlock, "gold"
	for what, row := range map[string]struct {
		edit func(*corev1.PersistentVolumeClaim)
		why  string
	}{
		"less": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Mi")
		}, ""},
		"chosen": {func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, contract.AnnSelectedNode, "node-02")
		}, ""},
		"another class": {func(c *corev1.PersistentVolumeClaim) { *c.Spec.StorageClassName = "slow" }, `class is "slow"`},
		"no class":      {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, `class is ""`},
		"another mode": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
		}, "access modes"},
		"block": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, "Block"},
		"more": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		}, "requests 2Gi"},
		"a selector":  {func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, "selector"},
		"a source":    {func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }, "data source"},
		"a reference": {func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{} }, "data source"},
		"attributes":  {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &class }, "attributes"},
		"an import": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"cdi.kubevirt.io/storage.import.source": "http"}
		}, "import over the data"},
		"a data volume": {func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "DataVolume"}}
		}, "DataVolume"},
		"another's name": {func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet"}}
		}, ""},
	} {
		s := lost()
		row.edit(s.pending())
		got := Decide(s.v, s.f, s.o)
		if (got.Verdict == Made) != (row.why == "") || !strings.Contains(got.Why, row.why) || row.why == "" && got.ClaimWrite != NameVolume {
			t.Errorf("%s: %+v, want %q", what, got, row.why)
		}
	}
	s := lost()
	s.pending()
	s.f.Other = "pvc-new"
	if got := Decide(s.v, s.f, s.o); got.Verdict != Left || !strings.Contains(got.Why, "PV pvc-new was made for it") {
		t.Errorf("%+v", got)
	}
	for _, pv := range []corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pvc-new"}}, {Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "new"}}}} {
		if !MadeFor(&pv, s.f.Claim) {
			t.Errorf("%+v was made for the claim", pv)
		}
	}
	if MadeFor(s.v.Objects.PV, s.f.Claim) {
		t.Error("the volume's own PV")
	}
}

// The policy comes back once both are Bound, the agent has recorded the claim, and the claim stays.
// The note on a PV comes before its policy, which is Retain.
func TestPolicyDue(t *testing.T) {
	for what, row := range map[string]struct {
		edit func(*scene)
		want corev1.PersistentVolumeReclaimPolicy
	}{
		"bound":                       {func(*scene) {}, corev1.PersistentVolumeReclaimDelete},
		"nothing noted":               {func(s *scene) { delete(s.f.PV.Annotations, contract.AnnFormerPolicy) }, ""},
		"Retain noted":                {func(s *scene) { s.f.PV.Annotations[contract.AnnFormerPolicy] = "Retain" }, ""},
		"not Bound":                   {func(s *scene) { s.f.PV.Status.Phase = corev1.VolumeAvailable }, ""},
		"Released":                    {func(s *scene) { s.f.PV.Status.Phase = corev1.VolumeReleased }, ""},
		"the claim goes":              {func(s *scene) { s.f.Claim.DeletionTimestamp = &metav1.Time{} }, ""},
		"no claim":                    {func(s *scene) { s.f.Claim = nil }, ""},
		"another claim of the name":   {func(s *scene) { s.f.Claim.UID = "third" }, ""},
		"not recorded yet":            {func(s *scene) { s.v.ClaimUID = "old" }, ""},
		"the PV goes":                 {func(s *scene) { s.f.PV.DeletionTimestamp = &metav1.Time{} }, ""},
		"another driver's":            {func(s *scene) { s.f.PV.Spec.CSI.Driver = "other" }, ""},
		"another volume":              {func(s *scene) { s.f.PV.Spec.CSI.VolumeHandle = "pvc-2" }, ""},
		"given up by the operator":    {func(s *scene) { s.f.PV.Annotations[contract.AnnGivenUp] = "node" }, ""},
		"its agent reports no volume": {func(s *scene) { s.f.PV.Annotations[contract.AnnMissing] = "node" }, ""},
		"being migrated":              {func(s *scene) { s.f.PV.Annotations[contract.AnnPolicy] = "Delete" }, ""},
		"someone set another":         {func(s *scene) { s.f.PV.Spec.PersistentVolumeReclaimPolicy = "Delete" }, ""},
	} {
		s := lost()
		NotePolicy(s.v.Objects.PV, "Delete")
		s.v.Policy, s.v.ClaimUID = "Retain", "new" // as the agent records it meanwhile
		s.bound()
		row.edit(&s)
		if got := PolicyDue(s.v, s.f); got != row.want {
			t.Errorf("%s: %q, want %q", what, got, row.want)
		}
	}
	for _, had := range []string{"Retain", "", "Recycle"} {
		s := lost()
		NotePolicy(s.v.Objects.PV, had)
		if s.v.Objects.PV.Spec.PersistentVolumeReclaimPolicy != "Retain" || s.v.Objects.PV.Annotations[contract.AnnFormerPolicy] != "" {
			t.Errorf("%q: %+v", had, s.v.Objects.PV)
		}
	}
}

// A plan of another version is refused before its fields are read.
func TestPlanVersion(t *testing.T) {
	data, err := json.Marshal(Plan{Version: Version, Node: "node-01", Volumes: []Volume{{Name: "pvc-1", Finding: Finding{Verdict: Made, PVWrite: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Decode(data); err != nil || p.Node != "node-01" || p.Volumes[0].Verdict != Made || !p.Volumes[0].PVWrite {
		t.Errorf("%s: %+v, %v", data, p, err)
	}
	for text, want := range map[string]string{`{"version":2,"volumes":"later"}`: "version 2", `[]`: "no plan", ``: "no plan", `{}`: "version 0"} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
