package resize

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// pair is a claim that asks for one size and has another, and its PV.
func pair(asks, has, pv string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", ResourceVersion: "7"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pvc-1", Resources: corev1.VolumeResourceRequirements{Requests: storage(asks)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage(has)},
	}
	return claim, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage(pv), ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"},
		},
	}
}

func TestShort(t *testing.T) {
	const mi = int64(1) << 20
	for name, row := range map[string]struct {
		asks, has, pv string
		allocated     int64
		want          bool
	}{
		"in step":                 {"10Mi", "10Mi", "10Mi", 10 * mi, false},
		"asks for more":           {"20Mi", "10Mi", "10Mi", 10 * mi, true},
		"volume grew":             {"20Mi", "10Mi", "10Mi", 20 * mi, true},
		"PV grew":                 {"20Mi", "10Mi", "20Mi", 20 * mi, true},
		"PV alone is behind":      {"20Mi", "20Mi", "10Mi", 20 * mi, true},
		"lowered, volume grew":    {"15Mi", "10Mi", "10Mi", 20 * mi, true},
		"whole disk":              {"10Mi", "1Gi", "1Gi", 10 * mi, false},
		"whole disk, asks":        {"20Mi", "1Gi", "1Gi", 10 * mi, true},
		"nothing allocated":       {"10Mi", "10Mi", "10Mi", 0, false},
		"nothing allocated, asks": {"20Mi", "10Mi", "10Mi", 0, true},
		"other words":             {"10Mi", "10485760", "10240Ki", 10 * mi, false},
		"half a byte more":        {"10485760500m", "10Mi", "10Mi", 10 * mi, true},
		"more than an int64":      {"18446744073720037376", "1e30", "1e30", 10 * mi, true}, // 2^64 and 10Mi
	} {
		claim, pv := pair(row.asks, row.has, row.pv)
		if got := short(claim, pv, row.allocated); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSizeOf(t *testing.T) {
	for _, row := range []struct {
		asks      string
		allocated int64
		want      string
	}{
		{"20Mi", 20 << 20, "20Mi"}, {"20971520", 20 << 20, "20971520"}, {"15Mi", 20 << 20, "20Mi"},
		{"20971519500m", 20 << 20, "20971519500m"},     // a volume has whole bytes
		{"18446744073730523136", 20 << 20, "20Mi"},     // 2^64 and 20Mi
		{"1e30", math.MaxInt64, "9223372036854775807"}, // adopted with as much as a record holds
	} {
		claim, _ := pair(row.asks, "10Mi", "10Mi")
		if got := sizeOf(claim, row.allocated); got.String() != row.want {
			t.Errorf("%+v: %s", row, &got)
		}
	}
}

func TestBound(t *testing.T) {
	type claim = corev1.PersistentVolumeClaim
	type volume = corev1.PersistentVolume
	for name, spoil := range map[string]func(*claim, *volume){
		"good":          nil,
		"pending":       func(c *claim, _ *volume) { c.Status.Phase = corev1.ClaimPending },
		"goes":          func(c *claim, _ *volume) { c.DeletionTimestamp = &metav1.Time{} },
		"another PV":    func(c *claim, _ *volume) { c.Spec.VolumeName = "pvc-2" },
		"another claim": func(_ *claim, pv *volume) { pv.Spec.ClaimRef.UID = "2" },
		"no claim":      func(_ *claim, pv *volume) { pv.Spec.ClaimRef = nil },
	} {
		c, pv := pair("10Mi", "10Mi", "10Mi")
		if spoil != nil {
			spoil(c, pv)
		}
		if got := bound(c, pv); got != (spoil == nil) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
