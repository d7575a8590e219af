package pvs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/volume"
)

// An event on a PV that is in use, or that is not what is wrong, does not advise to delete it.
func TestRefusalsThatAdviseDeletion(t *testing.T) {
	for what, row := range map[string]struct {
		phase   corev1.PersistentVolumePhase
		why     error
		deletes bool
	}{
		"bound":            {corev1.VolumeBound, errors.New("another node"), false},
		"released":         {corev1.VolumeReleased, errors.New("another node"), true},
		"a damaged record": {corev1.VolumeReleased, fmt.Errorf("volume v: %w", volume.ErrDamaged), false},
		"an occupied name": {corev1.VolumeReleased, fmt.Errorf("volume v: %w", volume.ErrConflict), false},
	} {
		l := newLife(t, "wait")
		l.pv.Status.Phase = row.phase
		l.serve()
		l.refuse(t.Context(), l.pv, row.why)
		list, err := l.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || strings.Contains(list.Items[0].Message, "delete it") != row.deletes {
			t.Errorf("%s: %+v, %v", what, list.Items, err)
		}
	}
}
