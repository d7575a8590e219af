package live_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/live"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func object(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}
}

// A missing object is no error. A server that does not answer is one, and the caller retries.
func TestAbsentIsNotUnanswered(t *testing.T) {
	const pv, claim, system = "persistentvolumes/data", "namespaces/ns/persistentvolumeclaims/data", "namespaces/kube-system"
	c := corev1.PersistentVolumeClaim{ObjectMeta: object("data", "u1")}
	for name, row := range map[string]struct {
		answers  map[string]any
		want     string // UIDs of the PV, of the claim, and of the cluster
		failures int
	}{
		"all are there": {map[string]any{pv: corev1.PersistentVolume{ObjectMeta: object("data", "p1")}, claim: c,
			system: corev1.Namespace{ObjectMeta: object("kube-system", "k1")}}, "p1 u1 k1", 0},
		"none is there": {nil, "", 0},
		"another claim": {map[string]any{claim: corev1.PersistentVolumeClaim{ObjectMeta: object("data", "u2")}}, "", 0},
		"forbidden":     {map[string]any{pv: 403, claim: 403, system: 403}, "", 2}, // only the cluster may stay unknown
		"no answer":     {map[string]any{pv: 500, claim: 500, system: 500}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			client := apitest.Client(t, apitest.Paths(row.answers))
			var got []string
			gotPV, err1 := live.PV(t.Context(), client, "data")
			if gotPV != nil {
				got = append(got, string(gotPV.UID))
			}
			gotClaim, err2 := live.Claim(t.Context(), client, record.Owner{Namespace: "ns", Name: "data", UID: "u1"})
			if gotClaim != nil {
				got = append(got, string(gotClaim.UID))
			}
			cluster, err3 := live.Cluster(t.Context(), client)
			if cluster != "" {
				got = append(got, cluster)
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
			failures := 0
			for _, err := range []error{err1, err2, err3} {
				if err == nil {
					continue
				}
				failures++
				if !errors.As(err, new(live.Unanswered)) || !errors.Is(err, volume.ErrNotReady) || !strings.Contains(err.Error(), "read ") {
					t.Errorf("%v is not an Unanswered of a read", err)
				}
			}
			if failures != row.failures {
				t.Errorf("%d reads failed, want %d: %v", failures, row.failures, []error{err1, err2, err3})
			}
		})
	}
}

// All pages are read, until the caller has what it needs; a page that is missing is
// an error, not the end.
func TestPages(t *testing.T) {
	page := func(next string, names ...string) corev1.PersistentVolumeList {
		l := corev1.PersistentVolumeList{ListMeta: metav1.ListMeta{Continue: next}}
		for _, n := range names {
			l.Items = append(l.Items, corev1.PersistentVolume{ObjectMeta: object(n, n)})
		}
		return l
	}
	answers := map[string]any{"persistentvolumes": page("two", "a", "b"), "persistentvolumes?two": page("three", "c"), "persistentvolumes?three": 500}
	for _, row := range []struct {
		until, want string
		fails       bool
	}{{"a", "a", false}, {"c", "abc", false}, {"", "abc", true}} {
		got := ""
		err := live.EachPV(t.Context(), apitest.Client(t, apitest.Paths(answers)), func(pv *corev1.PersistentVolume) bool {
			got += pv.Name
			return pv.Name != row.until
		})
		if got != row.want || (err != nil) != row.fails {
			t.Errorf("until %q: %q, %v", row.until, got, err)
		}
	}
	claims := map[string]any{
		"persistentvolumeclaims":     corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{Continue: "two"}},
		"persistentvolumeclaims?two": corev1.PersistentVolumeClaimList{Items: []corev1.PersistentVolumeClaim{{ObjectMeta: object("data", "u1")}}},
	}
	for uid, want := range map[string]bool{"u1": true, "u2": false} {
		if c, err := live.Claim(t.Context(), apitest.Client(t, apitest.Paths(claims)), record.Owner{UID: uid}); err != nil || (c != nil) != want {
			t.Errorf("claim with UID %s: %v, %v", uid, c, err)
		}
	}
}

// The first page of capacity objects is short; all are read unless the caller has enough.
func TestEachCapacity(t *testing.T) {
	const path = "/apis/storage.k8s.io/v1/namespaces/agents/csistoragecapacities"
	page := func(next, name string) storagev1.CSIStorageCapacityList {
		return storagev1.CSIStorageCapacityList{ListMeta: metav1.ListMeta{Continue: next}, Items: []storagev1.CSIStorageCapacity{{ObjectMeta: object(name, name)}}}
	}
	answer := apitest.Paths(map[string]any{path: page("two", "a"), path + "?two": page("three", "b"), path + "?three": 403})
	for until, want := range map[string]string{"a": "a limit 50", "b": "ab limit 500", "": "ab limit 500, forbidden"} {
		limit, names := "", ""
		client := apitest.Client(t, func(r *http.Request) (int, any) {
			limit = r.URL.Query().Get("limit")
			return answer(r)
		})
		err := live.EachCapacity(t.Context(), client, "agents", func(c *storagev1.CSIStorageCapacity) bool {
			names += c.Name
			return c.Name != until
		})
		got := names + " limit " + limit
		if apierrors.IsForbidden(err) {
			got += ", forbidden"
		}
		if got != want {
			t.Errorf("until %q: %s, %v; want %s", until, got, err, want)
		}
	}
}
