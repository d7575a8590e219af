package poolrecord

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What is written into a container is read from it, and what cannot be read is no empty offer.
func TestOffer(t *testing.T) {
	for _, want := range []Offer{
		{Pools: []Pool{{Name: "a", Path: "/a/csi"}, {Name: "b", Path: "/b/csi", Mount: "/b/csi"}}},
		{Pools: []Pool{{Name: "a", Path: "/a/csi"}, {Name: "b", Path: "/mnt/b/csi"}, {Name: "c", Path: "/c/csi", Mount: "/c/csi"}}, Details: map[string]Details{
			"a": {NodeSelector: map[string]string{"disk": "fast"}}, "b": {Mount: "/mnt/b"}, "c": {NodeSelector: map[string]string{"x": ""}}}},
		{Pools: []Pool{{Name: "legacy", Path: "/a/csi"}}, PVDir: "/a", Prefix: true},
	} {
		var c corev1.Container
		if err := want.Configure(&c); err != nil {
			t.Fatal(err)
		}
		if got := OfferOf(corev1.PodSpec{Containers: []corev1.Container{{}, c}}); !reflect.DeepEqual(got, PodOffer{Offer: want}) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for name, row := range map[string]struct {
		env  []corev1.EnvVar
		want PodOffer
	}{
		"none":              {},
		"empty":             {[]corev1.EnvVar{{Name: "DATADIR"}, {Name: "PV_DIR"}}, PodOffer{}},
		"damaged":           {[]corev1.EnvVar{{Name: "DATADIR", Value: `[{"name":`}}, PodOffer{Unreadable: true}},
		"existing operator": {[]corev1.EnvVar{{Name: "PV_DIR", Value: `[{"name":"a","path":"/a/csi"}]`}}, PodOffer{Older: []Pool{{Name: "a", Path: "/a/csi"}}}},
		"neither":           {[]corev1.EnvVar{{Name: "PV_DIR", Value: "relative"}}, PodOffer{Unreadable: true}},
	} {
		if got := OfferOf(corev1.PodSpec{Containers: []corev1.Container{{Env: row.env}}}); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}
