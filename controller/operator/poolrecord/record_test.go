package poolrecord

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func read(t *testing.T, c client.Client) *Record {
	t.Helper()
	r, err := Read(t.Context(), c, "ns")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Of two that read the record, the second to write it is refused: it decided by an older one.
func TestRecord(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	r := read(t, c)
	if r.Found {
		t.Error("a record that was never written is found")
	}
	r.Pools = []Pool{{Name: "a", Path: "/a/csi"}}
	r.Holders = map[string]Holder{"d": {Pool: "a", Node: "n", Path: "/a/csi", ClaimUID: "u"}}
	if err := r.Write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	first, second := read(t, c), read(t, c)
	if !first.Found || first.Pools[0] != r.Pools[0] || first.Holders["d"] != r.Holders["d"] {
		t.Errorf("%+v", first.Content)
	}
	version := first.object.ResourceVersion
	if err := first.Write(t.Context(), c); err != nil || read(t, c).object.ResourceVersion != version {
		t.Errorf("a record that did not change is written: %v", err)
	}
	delete(first.Holders, "d")
	if err := first.Write(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	second.PVDir = "/srv"
	if err := second.Write(t.Context(), c); !apierrors.IsConflict(err) {
		t.Errorf("an older record is written: %v", err)
	}
	if err := second.Delete(t.Context(), c); !apierrors.IsConflict(err) {
		t.Errorf("a record that changed is deleted: %v", err)
	}
	if err := read(t, c).Delete(t.Context(), c); err != nil || read(t, c).Found {
		t.Errorf("not deleted: %v", err)
	}
}

func TestRecordThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "[", "null", "{}", `{"pool":[{"name":"a","path":"/srv/a"}]}`, `{"holders":{}}`, `{"pools":[{"name":"a","path":"../a"}]}`, `{"pools":[{"name":"a","path":"/"}]}`, `{"pools":null,"holders":{"d":{"path":"/a"}}}`} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Name}, Data: map[string]string{key: text}}
		if _, err := Read(t.Context(), fake.NewClientBuilder().WithObjects(m).Build(), "ns"); err == nil || !strings.Contains(err.Error(), Name) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A ConfigMap with some of the holders that was changed by hand does not say that there are none.
func TestShardThatCannotBeRead(t *testing.T) {
	for text, reads := range map[string]bool{`{}`: true, "": false, "null": false, "[": false} {
		object := func(name, text string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{key: text}}
		}
		c := fake.NewClientBuilder().WithObjects(object(Name, `{"pools":null,"split":true}`), object(ShardName(0), text)).Build()
		if _, err := Read(t.Context(), c, "ns"); err == nil != reads || err != nil && !strings.Contains(err.Error(), ShardName(0)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
