package waiting

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChosenBefore(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	entry := func(seconds int, fields string) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: created.Add(time.Duration(seconds) * time.Second)}}
		if fields != "" {
			e.FieldsV1 = metav1.NewFieldsV1(fields)
		}
		return e
	}
	const chosen = `{"f:metadata":{"f:annotations":{".":{},"f:volume.kubernetes.io/selected-node":{}}}}`
	const other = `{"f:metadata":{"f:annotations":{"f:volume.kubernetes.io/storage-provisioner":{}}}}`
	timeless := entry(0, chosen)
	timeless.Time = nil
	for name, row := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"before":               {[]metav1.ManagedFieldsEntry{entry(-1, chosen), entry(5, other)}, true},
		"after":                {[]metav1.ManagedFieldsEntry{entry(1, chosen), entry(-5, other)}, false},
		"in the same second":   {[]metav1.ManagedFieldsEntry{entry(0, chosen)}, false},
		"written again":        {[]metav1.ManagedFieldsEntry{entry(-1, chosen), entry(1, chosen)}, false},
		"written without time": {[]metav1.ManagedFieldsEntry{entry(-1, chosen), timeless}, false},
		"not known":            {[]metav1.ManagedFieldsEntry{entry(-1, other), entry(-1, ""), entry(-1, "{")}, false},
		"nothing":              {nil, false},
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ManagedFields: row.entries}}
		if got := chosenBefore(claim, created); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
