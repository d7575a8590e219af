package migrate

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
)

// Each cause of a stop has its event within the hour; other numbers in the words of one cause have
// none, and words without end make a bounded number of events.
func TestEachCauseIsRecorded(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "old"}}
	client := fake.NewClientset(pv)
	recorder := events.New(client, "node-01")
	defer recorder.Close()
	m := &Migrator{Config: Config{Client: client, Node: "node-01", Events: recorder}}
	j := &job{old: pv, new: &corev1.PersistentVolume{}, to: toCSI}
	count := func() int {
		all, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	for i, row := range []struct {
		why  string
		want int
	}{
		{"the policy was put back by a webhook", 1}, {"the policy was put back by a webhook", 1},
		{"another PV has its name", 2}, {"the disk has 17 of 20 bytes", 3}, {"the disk has 18 of 20 bytes", 3},
	} {
		if m.halted(t.Context(), j, row.why); count() != row.want {
			t.Errorf("%d: %d events after %q, want %d", i, count(), row.why, row.want)
		}
	}
	for i := range 500 {
		m.halted(t.Context(), j, fmt.Sprintf("%c%c refused", 'a'+i%26, 'a'+i/26))
	}
	if count() > causes {
		t.Errorf("%d events of one migration", count())
	}
}
