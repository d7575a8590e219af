package pvs

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/classtest"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/nodeinfo"
	"kubevirt.io/hostpath-provisioner/volume"
)

const testUID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// newPVs is the PVs of node-01, with the open pools legacy, which is that of
// hostPath PVs, and fast. Their API server has nothing.
func newPVs(t *testing.T) *PVs {
	t.Helper()
	pools := classtest.Pools(t)
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	p := New(Config{Client: client, Node: infoOf(t, "c"), Events: events.New(client, "node-01"), Pools: pools,
		HostPath: pools.Named("legacy"), CSIDriver: class.CSIProvisioner, Changed: func(*volume.Pool) {}})
	p.claims = deletions{}
	setObjects(t, p)
	return p
}

// infoOf is what the API server of that cluster has about the node node-01.
func infoOf(t *testing.T, cluster types.UID) *nodeinfo.Info {
	t.Helper()
	info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", apitest.Node("node-01", "host-a", cluster)...)), "node-01")
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return info
}

// setAnswer sets what the API server answers.
func setAnswer(t *testing.T, p *PVs, answer apitest.Answer) {
	t.Helper()
	p.client = apitest.Client(t, answer)
}

// setObjects makes these PVs, claims and pods all that the API server has. It lists the pods of this node only.
func setObjects(t *testing.T, p *PVs, objects ...metav1.Object) {
	t.Helper()
	setAnswer(t, p, apitest.Objects(p.node.Name(), objects...))
}

// validPV is what the agent itself makes for classtest.Claim in a class.
func validPV(p *PVs, className string) *corev1.PersistentVolume {
	return classtest.PV(p.pools, testUID, className)
}

// validate is what the agent does with a PV that it sees.
func validate(p *PVs, pv *corev1.PersistentVolume) (string, error) {
	b := p.backendOf(pv)
	if b == nil {
		return "", errors.New("no backend")
	}
	_, name, err := b.validate(pv)
	return name, err
}

// affinityValues is what the PV's affinity names.
func affinityValues(pv *corev1.PersistentVolume) []string {
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
}
