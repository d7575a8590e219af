package orphans

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A namespace that was made again is another tenant's: nothing is printed for a claim in it, whatever
// that tenant's claim names, unless the caller names it. What is not known is noted.
func TestObjectsInNamespaceThatIsMadeAgain(t *testing.T) {
	const atClaim, atNamespace = "namespaces/ns/persistentvolumeclaims/data", "namespaces/ns"
	namespace := func(uid string, after time.Duration) corev1.Namespace {
		return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: types.UID(uid), CreationTimestamp: metav1.NewTime(time.Now().Add(after))}}
	}
	ends := namespace("first", -time.Hour)
	ends.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	class := "c"
	theirs := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "theirs"}}
	theirs.Spec.VolumeName, theirs.Spec.StorageClassName = "pvc-1", &class
	its := theirs
	its.UID = "1"
	for what, row := range map[string]struct {
		recorded string // UID of the claim's namespace
		says     answers
		as       string
		want     string // of the notes, or of the error
		refused  bool
	}{
		"the same":                         {recorded: "first", says: answers{atNamespace: namespace("first", -time.Hour)}},
		"the same, by times":               {says: answers{atNamespace: namespace("first", -time.Hour)}},
		"made again":                       {recorded: "first", says: answers{atNamespace: namespace("second", -time.Hour)}, want: "another tenant", refused: true},
		"made again, by times":             {says: answers{atNamespace: namespace("second", time.Hour)}, want: "another tenant", refused: true},
		"made again, and claims the name":  {recorded: "first", says: answers{atNamespace: namespace("second", -time.Hour), atClaim: theirs}, want: "another tenant", refused: true},
		"made again, and is meant":         {recorded: "first", says: answers{atNamespace: namespace("second", -time.Hour)}, as: "ns/data"},
		"by times, and the claim is there": {says: answers{atNamespace: namespace("first", time.Hour), atClaim: its}},
		"it ends":                          {recorded: "first", says: answers{atNamespace: ends}, want: "being deleted", refused: true},
		"it ends, and is meant":            {recorded: "first", says: answers{atNamespace: ends}, as: "ns/data", want: "being deleted", refused: true},
		"it is gone":                       {recorded: "first", says: answers{}, want: "namespace ns does not exist"},
		"another, which is not there":      {recorded: "first", says: answers{}, as: "b/data", want: "namespace b does not exist"},
		"it may not be read":               {recorded: "first", says: answers{atNamespace: 403}, want: "may not read namespace ns"},
		"no answer":                        {recorded: "first", says: answers{atNamespace: 500}, want: "read namespace ns", refused: true},
		"another cluster's": {recorded: "first", want: `recorded in cluster "here", and this one is "new"`, says: answers{atNamespace: namespace("second", time.Hour),
			"namespaces/kube-system": corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "new"}}}},
		"no cluster is known": {recorded: "first", want: "recorded in cluster", says: answers{atNamespace: namespace("second", time.Hour),
			"namespaces/kube-system": 403}},
	} {
		t.Run(what, func(t *testing.T) {
			says := thisCluster()
			says["/apis/storage.k8s.io/v1/storageclasses"] = storagev1.StorageClassList{}
			for key, value := range row.says {
				says[key] = value
			}
			o, v := orphaned(t, says)
			pool := o.Pools.All()[0]
			if _, err := pool.RecordClaim(v.Name, v.PV, v.Owner, &record.Claim{Class: class, NamespaceUID: row.recorded}); err != nil {
				t.Fatal(err)
			}
			got, err := o.Restored(t.Context(), Wanted{Named: namedOf(pool, v.Record), As: row.as}, restorer{class})
			if row.refused {
				if err == nil || !strings.Contains(err.Error(), row.want) || got.PV != nil || got.Claim != nil {
					t.Errorf("%v, want %q, with %+v", err, row.want, got)
				}
				return
			}
			if err != nil || got.PV == nil || (got.Claim == nil) != (says[atClaim] != nil) {
				t.Fatalf("%+v, %v", got, err)
			}
			text := strings.Join(got.Notes, "\n")
			if row.want == "" && strings.Contains(text, "amespace ns") || !strings.Contains(text, row.want) {
				t.Errorf("notes %q, want %q", text, row.want)
			}
		})
	}
}
