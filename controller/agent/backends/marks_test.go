package backends

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/identity"
)

// A Node was renamed, and kept its hostname. The annotation of local-path has the Node's name, of
// which a get answers that it does not exist: agents may not list Nodes for a hostname.
func TestRenamedNodeOfLocalPath(t *testing.T) {
	for provisioner, mayBeHost := range map[string]bool{contract.LocalPathProvisioner: false, contract.SingleNodeProvisioner: true,
		contract.HostPathProvisioner: false} {
		d := contract.DialectOf(provisioner)
		claim := classtest.Claim("1", "c", "")
		before := contract.Place{Node: "former-name", Hostname: "host-a"}
		pv := d.PV("pvc-1", "/pool/pvc-1_default_claim-1", claim, classtest.Class("local-path"), before, corev1.PersistentVolumeReclaimDelete)
		marks := hostPath{node: renamed{}, Served: Served{Dialect: *d}}.Marks(pv)
		marks.Volume = true
		asked := map[string]bool{}
		f := identity.WhoseVolume(marks, func(n identity.Name) identity.Existence {
			asked[n.Value] = n.Host
			if n.Host {
				return identity.Unknown
			}
			return identity.Absent
		})
		if host, ok := asked["former-name"]; !ok || host != mayBeHost {
			t.Errorf("%s: asked about %v", provisioner, asked)
		}
		if ours := f.Answer == identity.Ours; ours == mayBeHost {
			t.Errorf("%s: %+v", provisioner, f)
		}
	}
}

type renamed struct{}

func (renamed) Name() string     { return "node-01" }
func (renamed) UID() string      { return "" }
func (renamed) Hostname() string { return "host-a" }
func (renamed) Former() []string { return nil }
