package migrate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
)

// pods serves a list of large pods as the API server does, in pages if it is asked for them.
type pods struct {
	n, size int

	mu   sync.Mutex
	most int // bytes written to one client; guarded by mu
}

func (l *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	from, limit, q := 0, l.n, r.URL.Query()
	_, _ = fmt.Sscan(q.Get("continue"), &from)
	_, _ = fmt.Sscan(q.Get("limit"), &limit)
	to, written, text := min(l.n, from+limit), 0, strings.Repeat("y", l.size)
	fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"`)
	if to < l.n {
		fmt.Fprintf(w, `,"continue":"%d"`, to)
	}
	fmt.Fprint(w, `},"items":[`)
	for i := from; i < to; i++ {
		if i > from {
			fmt.Fprint(w, ",")
		}
		k, err := fmt.Fprintf(w, `{"metadata":{"namespace":"tenant","name":"%d"},"spec":{"nodeName":"node-01","containers":[{"name":"c","args":["%s"]}]}}`, i, text)
		l.mu.Lock()
		written += k
		l.most = max(l.most, written)
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
	fmt.Fprint(w, `]}`)
}

// Any tenant can create pods of more than a MiB, and a node runs 110: a few are read at once.
func TestPodsAreReadInPages(t *testing.T) {
	server := &pods{n: 30, size: 1 << 20}
	api := httptest.NewServer(server)
	t.Cleanup(api.Close)
	m := &Migrator{Config: Config{Client: kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL}), Node: "node-01"}}
	for name, users := range map[string]func(*corev1.PersistentVolumeClaim) (string, error){
		"of the node": m.localUsers(t.Context()), "of a namespace": m.remoteUsers(t.Context())} {
		server.most = 0
		if _, err := users(claimOf("1Mi")); err != nil {
			t.Fatal(err)
		}
		if server.most > 16<<20 {
			t.Errorf("pods %s: %d MiB of one answer were read at once", name, server.most>>20)
		}
	}
}

// A check needs the claims of Bound PVs alone, and those of other PVs are no requests.
func TestCheckReadsNoClaimsOfReleasedPVs(t *testing.T) {
	m, pvs := many(t, 20)
	for _, pv := range pvs.all {
		pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain
		ref := pv.Spec.ClaimRef
		if err := m.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Delete(t.Context(), ref.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m.Client.(apitest.Lister).ClearActions()
	for _, f := range m.check(t.Context()) {
		if f.Verdict != Ready {
			t.Errorf("%s: %s", f.Verdict, f.Reason)
		}
	}
	n := 0
	for _, a := range m.Client.(apitest.Lister).Actions() {
		if a.GetResource().Resource == "persistentvolumeclaims" {
			n++
		}
	}
	if n > 0 {
		t.Errorf("%d requests for the claims of 20 retained PVs", n)
	}
}
