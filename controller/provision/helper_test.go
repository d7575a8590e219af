package provision

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/apitest"
	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/classtest"
	"kubevirt.io/hostpath-provisioner/controller/events"
	"kubevirt.io/hostpath-provisioner/controller/nodeinfo"
	"kubevirt.io/hostpath-provisioner/volume"
)

const testUID = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"

// examiner is a controller that knows its node and has the open pools legacy,
// which is that of hostPath claims, and fast. Its API server has nothing.
func examiner(t *testing.T) *Controller {
	t.Helper()
	var all []*volume.Pool
	for _, name := range []string{"legacy", "fast"} {
		pool, err := volume.New(volume.Config{Name: name, Path: filepath.Join(t.TempDir(), name)})
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		all = append(all, pool)
	}
	pools, err := volume.NewPools(all...)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	info, recorder := infoOf(t, "c"), events.New(client, "node-01")
	pvs := NewPVs(PVsConfig{Client: client, Node: info, Events: recorder, Pools: pools,
		HostPath: all[0], CSIDriver: class.CSIProvisioner, Changed: func(*volume.Pool) {}})
	c, err := New(Config{Client: client, Node: "node-01", Events: recorder, Info: info, PVs: pvs,
		Pools: pools, HostPath: all[0], CSIDriver: class.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	pvs.claims = c.claims
	has(t, c)
	return c
}

// infoOf is what the API server of that cluster has about the node node-01.
func infoOf(t *testing.T, cluster types.UID) *nodeinfo.Info {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01", Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: cluster}}
	info := nodeinfo.New(apitest.Client(t, apitest.Objects(node.Name, node, system)), node.Name)
	if err := info.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return info
}

// forbidPatch makes the agent one that may not patch PVs.
func forbidPatch(t *testing.T, c *Controller) {
	t.Helper()
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: c.node, Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	c.info = nodeinfo.New(apitest.Client(t, func(r *http.Request) (int, any) {
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
	}), c.node)
	for _, err := range []error{c.info.Read(t.Context()), c.info.CheckPermissions(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// answers sets what the API server answers.
func answers(t *testing.T, c *Controller, answer apitest.Answer) {
	t.Helper()
	c.client = apitest.Client(t, answer)
	c.pvs.client = c.client
}

// has makes these PVs, claims and pods all that the API server has. It lists the pods of this node only.
func has(t *testing.T, c *Controller, objects ...metav1.Object) {
	t.Helper()
	answers(t, c, apitest.Objects(c.node, objects...))
}

// goodPV is what the agent itself makes for classtest.Claim in a class, with what the
// library adds.
func goodPV(t *testing.T, c *Controller, className string) *corev1.PersistentVolume {
	t.Helper()
	claim, sc := classtest.Claim(testUID, className, ""), classtest.Class(className)
	s := c.shapeNamed(sc.Provisioner)
	name, pool := class.PVName(claim), s.pool(sc)
	pv := s.newPV(lib.ProvisionOptions{PVName: name, PVC: claim, StorageClass: sc}, pool,
		volume.Volume{Record: volume.Record{Name: name}, Path: filepath.Join(pool.Path(), name)})
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, class.AnnProvisionedBy, sc.Provisioner)
	return pv
}

// examine is what the loop does with a PV that it sees.
func examine(c *Controller, pv *corev1.PersistentVolume) (string, error) {
	b := c.pvs.backendOf(pv)
	if b == nil {
		return "", errors.New("no backend")
	}
	_, name, err := b.validate(pv)
	return name, err
}

// value is what the PV's affinity names.
func value(pv *corev1.PersistentVolume) []string {
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
}
