package onlynode

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// nodes makes a node of each name. A name with a minus is that of a cordoned node, one with an
// asterisk that of a tainted one.
func nodes(names ...string) (all []*corev1.Node) {
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimRight(name, "-*")}}
		n.Spec.Unschedulable = strings.HasSuffix(name, "-")
		if strings.HasSuffix(name, "*") {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}
		all = append(all, n)
	}
	return all
}

func TestOnly(t *testing.T) {
	for what, row := range map[string]struct {
		nodes string
		want  string // in the error, "" for none
	}{
		"alone":                        {"a", ""},
		"alone and cordoned":           {"a-", ""},
		"two":                          {"b a", "(a, b)"},
		"three":                        {"c b a", "(a, b, c)"},
		"the other is tainted":         {"a b*", "(a, b)"},
		"the other is cordoned":        {"a b-", ""},
		"this one is cordoned":         {"a- b", "(a, b)"},
		"both are cordoned":            {"a- b-", "(a, b)"},
		"one of the others is too":     {"a b c-", "(a, b)"},
		"all others are cordoned":      {"a b- c-", ""},
		"this node does not exist yet": {"b", "(b)"},
	} {
		err := only("a", nodes(strings.Fields(row.nodes)...))
		if (err == nil) != (row.want == "") || err != nil && (!strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "manifests/legacy")) {
			t.Errorf("%s: %v, want %q", what, err, row.want)
		}
	}
}

// warnings counts Warnings.
type warnings struct{ n atomic.Int32 }

func (w *warnings) Warn(context.Context, corev1.ObjectReference, string, string, string) { w.n.Add(1) }

// A second node is noticed while the guard runs, and so is its end.
func TestRun(t *testing.T) {
	client := fake.NewClientset(nodes("a")[0])
	var told warnings
	var changed atomic.Int32
	g := New(client, "a", &told, func() { changed.Add(1) })
	if g.Err() == nil {
		t.Error("unread nodes are no reason to wait")
	}
	if err := g.Read(t.Context()); err != nil || g.Err() != nil {
		t.Fatal(err, g.Err())
	}
	go g.Run(t.Context())
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %v, %d warnings, %d changes", what, g.Err(), told.n.Load(), changed.Load())
			}
		}
	}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), nodes("b")[0], metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("a second node", func() bool { // the fake API server sends nothing from before the watch
		if _, err := client.CoreV1().Nodes().Update(t.Context(), nodes("b")[0], metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return g.Err() != nil && told.n.Load() > 0
	})
	if _, err := client.CoreV1().Nodes().Update(t.Context(), nodes("b-")[0], metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("cordoned", func() bool { return g.Err() == nil && changed.Load() == 1 })
}
