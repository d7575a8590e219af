package pvs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/fake"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// TestBytesOfAnAdoptedVolume: what a claim requests may be a growth that no provisioner served, and
// what a PV shows may be the size of the whole disk. Neither is allocated.
func TestBytesOfAnAdoptedVolume(t *testing.T) {
	p := newPVs(t)
	pool := p.Pools.Named("legacy")
	space, err := pool.Space()
	if err != nil {
		t.Fatal(err)
	}
	whole := contract.WholeDisk(space.Total, 0)
	dialects, err := contract.ParseCompat("local-path")
	if err != nil {
		t.Fatal(err)
	}
	localPath := p.backend(backends.HostPath(p.Node, backends.Served{Dialect: dialects[0], Pools: []*volume.Pool{pool}}))
	const mi = 1 << 20
	for what, row := range map[string]struct {
		class    string
		of       *backend // nil is that of the class
		noUUID   bool
		capacity string
		request  string // "" is no claim
		want     int64
	}{
		"local-path":                            {class: "wait", of: localPath, noUUID: true, capacity: "10Mi", request: "10Mi", want: 10 * mi},
		"local-path, grown and not served":      {class: "wait", of: localPath, noUUID: true, capacity: "10Mi", request: "1Pi", want: 10 * mi},
		"local-path, no claim":                  {class: "wait", of: localPath, noUUID: true, capacity: "10Mi", want: 10 * mi},
		"local-path, larger than the disk":      {class: "wait", of: localPath, noUUID: true, capacity: "1Ei", want: 0},
		"older, with the whole disk":            {class: "wait", noUUID: true, capacity: whole.String(), request: "10Mi", want: 10 * mi},
		"older, grown and not served":           {class: "wait", noUUID: true, capacity: whole.String(), request: "1Ei", want: 0},
		"older, no claim":                       {class: "wait", noUUID: true, capacity: "251Gi", want: 0},
		"older driver, no claim":                {class: "csi", noUUID: true, capacity: "251Gi", want: 0},
		"ours, no claim":                        {class: "csi", capacity: "10Mi", want: 10 * mi},
		"ours, which shows the disk, no claim":  {class: "csi", capacity: whole.String(), want: 0},
		"ours, which shows the disk, and grown": {class: "wait", capacity: whole.String(), request: "1Ei", want: 0},
		"ours, hostPath, no claim":              {class: "wait", capacity: "10Mi", want: 10 * mi},
	} {
		pv := validPV(p, row.class)
		if row.noUUID {
			delete(pv.Annotations, contract.AnnPool)
		}
		pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(row.capacity)}
		client := fake.NewClientset(pv)
		if row.request != "" {
			claim := classtest.Claim(testUID, row.class, pv.Name)
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(row.request)}
			client = fake.NewClientset(pv, claim)
		}
		p.Client = apitest.Listing(client)
		of := row.of
		if of == nil {
			of = p.backendOf(pv)
		}
		if got, err := p.bytesOf(t.Context(), of, pv, pool); got != row.want || err != nil {
			t.Errorf("%s: %d bytes, want %d: %v", what, got, row.want, err)
		}
	}
}
