package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	agentrecovery "kubevirt.io/hostpath-provisioner/controller/agent/recovery"
	"kubevirt.io/hostpath-provisioner/controller/kube/recovery"
)

// planner answers as the agent of the container does.
type planner struct {
	finding recovery.Finding
	err     error

	mu    sync.Mutex
	asked []agentrecovery.Request
}

func (p *planner) Volume(_ context.Context, r agentrecovery.Request) (recovery.Volume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r)
	return recovery.Volume{Pool: "a", Name: r.Name, PVName: "pvc-1", Namespace: "ns", Claim: "data", Finding: p.finding, Notes: []string{"mind the gap\nkind: Secret"},
		Objects: &recovery.Objects{
			PV: &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}, ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}},
			Claim: &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
				ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new(string)}},
		}}, p.err
}

// The command asks about each record by what the disk has of it, lists what has no record, and prints
// the claim before the PV.
func TestRecoverCommand(t *testing.T) {
	clean(t)
	a, _, want := orphanPools(t, false)
	t.Setenv("DATADIR", `[{"name":"a","path":"`+a+`"}]`)
	if err := os.Mkdir(filepath.Join(a, "by-hand"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &planner{finding: recovery.Finding{Verdict: recovery.Made, ClaimWrite: recovery.CreateClaim, PVWrite: true}}
	server := httptest.NewServer(agent.WithRecovery(p, http.NotFoundHandler()))
	defer server.Close()
	address := "--http-address=" + strings.TrimPrefix(server.URL, "http://")
	recovered := func(args ...string) (string, error) {
		p.asked = nil
		var out bytes.Buffer
		err := run(t.Context(), append([]string{"recover", address}, args...), &out)
		return out.String(), err
	}
	for _, row := range []struct {
		args  []string
		words []string
	}{
		{nil, []string{"pvc-1", "ns/data", "made", `"mind the gap\nkind: Secret"`, "by-hand", "left", "a directory without a record"}},
		{[]string{"--from-cluster=x", "--to-namespace=b"}, []string{"b/data"}},
		{[]string{"-o", "json"}, []string{`"version": 1`, `"verdict": "made"`, `"claimWrite": "create"`}},
		{[]string{"-o", "yaml"}, []string{"---\napiVersion: v1\nkind: PersistentVolumeClaim\n", `storageClassName: ""`, "---\napiVersion: v1\nkind: PersistentVolume\n", "# " + a + " by-hand: left"}},
	} {
		out, err := recovered(row.args...)
		if err != nil || len(p.asked) != 1 || p.asked[0].Pool != want.Pool || p.asked[0].Trash != want.Trash || !p.asked[0].Created.Equal(want.Created) {
			t.Errorf("%q: %v, asked for %+v", row.args, err, p.asked)
		}
		at := 0
		for _, words := range row.words {
			i := strings.Index(out[at:], words)
			if i < 0 {
				t.Errorf("%q: no %q, in this order, in\n%s", row.args, words, out)
				break
			}
			at += i
		}
	}
	if out, err := recovered("--from-cluster=x", "--to-namespace=b"); err != nil || p.asked[0].FromCluster != "x" || p.asked[0].ToNamespace != "b" {
		t.Errorf("%s, %v: asked for %+v", out, err, p.asked)
	}
	p.finding.ClaimWrite = recovery.NameVolume
	if out, err := recovered("-o", "yaml"); err != nil || strings.Contains(out, "kind: PersistentVolumeClaim") || !strings.Contains(out, "kubectl -n ns patch pvc data") {
		t.Errorf("a claim that waits: %s, %v", out, err)
	}
	p.err = errors.New("the API server is away")
	if out, err := recovered(); err != nil || !strings.Contains(out, "left") || !strings.Contains(out, "the API server is away") {
		t.Errorf("no answer: %s, %v", out, err)
	}
}

// The sidecar form has no plan, and says so.
func TestRecoverBehindSidecar(t *testing.T) {
	clean(t)
	a, _, _ := orphanPools(t, false)
	t.Setenv("DATADIR", `[{"name":"a","path":"`+a+`"}]`)
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	err := run(t.Context(), []string{"recover", "--http-address=" + strings.TrimPrefix(none.URL, "http://")}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "a sidecar serves its claims") {
		t.Errorf("%v", err)
	}
	if err := run(t.Context(), []string{"recover", "pvc-1"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--help") {
		t.Errorf("%v", err)
	}
}
