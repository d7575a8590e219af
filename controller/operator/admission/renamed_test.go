package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
)

// A pool cannot take the path of another on which the disk of a claim is mounted.
func TestRenamed(t *testing.T) {
	at := func(name, path string, claim bool) v1beta1.StoragePool {
		p := v1beta1.StoragePool{Name: name, Path: path}
		if claim {
			p.PVCTemplate = &corev1.PersistentVolumeClaimSpec{}
		}
		return p
	}
	spec := func(all ...v1beta1.StoragePool) v1beta1.HostPathProvisionerSpec {
		return v1beta1.HostPathProvisionerSpec{StoragePools: all}
	}
	for _, row := range []struct {
		what        string
		before, now v1beta1.HostPathProvisionerSpec
		words       string
	}{
		{"another name", spec(at("good", "/srv/a", true)), spec(at("better", "/srv/a", true)), "pool better has the path of pool good, whose claims are mounted at /srv/a"},
		{"another name, without claims", spec(at("good", "/srv/a", true)), spec(at("plain", "/srv/a/", false)), "pool plain has the path of pool good"},
		{"as pathConfig", spec(at("good", "/srv/a", true)), v1beta1.HostPathProvisionerSpec{PathConfig: &v1beta1.PathConfig{Path: "/srv/a"}}, "pathConfig has the path of pool good"},
		{"a new pool at the path of one that moves", spec(at("good", "/srv/a", true)), spec(at("good", "/srv/z", true), at("new", "/srv/a", true)), "pool new has the path of pool good"},
		{"a directory at the path of one that moves", spec(at("good", "/srv/a", true)), spec(at("good", "/srv/z", true), at("new", "/srv/a", false)), "pool new has the path of pool good"},
		{"it moves, and nothing takes its path", spec(at("good", "/srv/a", true)), spec(at("good", "/srv/z", true)), ""},
		{"another path", spec(at("good", "/srv/a", true)), spec(at("better", "/srv/b", true)), ""},
		{"the same", spec(at("good", "/srv/a", true)), spec(at("good", "/srv/a", true)), ""},
		{"without claims", spec(at("good", "/srv/a", false)), spec(at("better", "/srv/a", false)), ""},
	} {
		if got := renamed(row.before, row.now); (got == "") != (row.words == "") || !strings.Contains(got, row.words) {
			t.Errorf("%s: %q, want words %q", row.what, got, row.words)
		}
	}
}
