package pvs

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

const testUID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// newPVs returns the PVs of node-01 with two open pools: legacy, which is the pool of
// hostPath PVs, and fast. Their API server has no objects.
func newPVs(t *testing.T) *PVs {
	t.Helper()
	pools := classtest.Pools(t)
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	info := infoOf(t, "c")
	p := New(Config{Client: client, Node: info, Events: events.New(client, "node-01"), Pools: pools,
		Backends: backendsOf(t, info, pools), Changed: func(*volume.Pool) {}})
	p.claims = noClaims{}
	setObjects(t, p)
	return p
}

// backendsOf returns the backends of the classes of classtest.
func backendsOf(t *testing.T, node Node, pools *volume.Pools) []*backends.Backend {
	t.Helper()
	own := []backends.Served{{Dialect: contract.Own(false), Pools: []*volume.Pool{pools.Named("legacy")}}}
	of, err := backends.New(backends.Config{Node: node, Pools: pools, Dialects: own, CSIDriver: contract.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	return of.All
}

// infoOf returns the node info of node-01 in a cluster.
func infoOf(t *testing.T, cluster types.UID) *nodeinfo.Info {
	t.Helper()
	info := nodeinfo.New(apitest.Client(t, apitest.Objects("node-01", apitest.Node("node-01", "host-a", cluster)...)), "node-01")
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return info
}

// setAnswer replaces the API server by one with these answers.
func setAnswer(t *testing.T, p *PVs, answer apitest.Answer) {
	t.Helper()
	p.Client = apitest.Client(t, answer)
}

// setObjects replaces the API server by one with these objects. It lists the pods of this node
// only.
func setObjects(t *testing.T, p *PVs, objects ...metav1.Object) {
	t.Helper()
	setAnswer(t, p, apitest.Objects(p.Node.Name(), objects...))
}

// validPV returns the PV that the agent creates for classtest.Claim in a class.
func validPV(p *PVs, className string) *corev1.PersistentVolume {
	return classtest.PV(p.Pools, testUID, className)
}

// validate validates a PV by its backend, and returns the directory.
func validate(p *PVs, pv *corev1.PersistentVolume) (string, error) {
	b := p.backendOf(pv)
	if b == nil {
		return "", errors.New("no backend")
	}
	_, name, err := b.validate(pv)
	return name, err
}

// affinityValues returns the values of the PV's node affinity.
func affinityValues(pv *corev1.PersistentVolume) []string {
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
}
