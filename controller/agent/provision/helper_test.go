package provision

import (
	"encoding/json"
	"net/http"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/agent/pvs"
	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume"
)

const testUID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// examiner is a controller that knows its node and has the open pools legacy,
// which is that of hostPath claims, and fast. Its API server has nothing.
func examiner(t *testing.T) *Controller { return examinerOf(t, classtest.Pools(t)) }

// examinerOf is examiner with these pools of the same names.
func examinerOf(t *testing.T, pools *volume.Pools) *Controller {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	own := []backends.Served{{Dialect: contract.Own(false), Pools: []*volume.Pool{pools.Named("legacy")}}}
	info, recorder := infoOf(t, "c"), events.New(client, "node-01")
	of, err := backends.New(backends.Config{Node: info, Pools: pools, Dialects: own, CSIDriver: contract.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	ofNode := pvs.New(pvs.Config{Client: client, Node: info, Events: recorder, Pools: pools, Backends: of.All, Changed: func(*volume.Pool) {}})
	local := claims.New(claims.Config{Client: client, Node: "node-01", Events: recorder, PVs: ofNode, Dialects: of.Dialects(), Refusal: of.Refusal})
	c, err := New(Config{Client: client, Events: recorder, Info: info, Claims: local, PVs: ofNode, Pools: pools, Backends: of})
	if err != nil {
		t.Fatal(err)
	}
	answers(t, c, apitest.Objects("node-01"))
	return c
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

// forbidPatch makes the agent one that may not patch PVs.
func forbidPatch(t *testing.T, c *Controller) {
	t.Helper()
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-01", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	c.Info = nodeinfo.New(apitest.Client(t, func(r *http.Request) (int, any) {
		if r.Method == http.MethodGet {
			return http.StatusOK, node
		}
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb != "patch" || asked.Resource != "persistentvolumes"
		return http.StatusCreated, review
	}), "node-01")
	for _, err := range []error{c.Info.Read(t.Context()), c.Info.CheckPermissions(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// answers sets what the API server answers.
func answers(t *testing.T, c *Controller, answer apitest.Answer) {
	t.Helper()
	c.Client = apitest.Client(t, answer)
}

// goodPV is what the agent itself makes for classtest.Claim in a class.
func goodPV(c *Controller, className string) *corev1.PersistentVolume {
	return classtest.PV(c.Pools, testUID, className)
}
