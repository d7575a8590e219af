package provision

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	lib "sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/classtest"
	"kubevirt.io/hostpath-provisioner/controller/events"
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
	info, recorder := NewInfo(client, "node-01"), events.New(client, "node-01")
	pvs := NewPVs(PVsConfig{Client: client, Node: info, Events: recorder, Pools: pools,
		HostPath: all[0], CSIDriver: class.CSIProvisioner, Changed: func(*volume.Pool) {}})
	c, err := New(Config{Client: client, Node: "node-01", Events: recorder, Info: info, PVs: pvs,
		Pools: pools, HostPath: all[0], CSIDriver: class.CSIProvisioner})
	if err != nil {
		t.Fatal(err)
	}
	pvs.claims = c.claims
	knows(c, "c")
	has(t, c)
	return c
}

// knows sets what the controller knows about its node, and the identity of its cluster.
func knows(c *Controller, cluster string) {
	c.info.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node, Labels: map[string]string{corev1.LabelHostname: "host-a"}}}
	c.info.cluster.Store(&cluster)
}

// answers makes what f says the API server's answers. Requests are JSON, so that f can read them.
func answers(t *testing.T, c *Controller, f func(*http.Request) (status int, object any)) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status, object := f(r)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(api.Close)
	c.client = kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
	c.info.client, c.pvs.client = c.client, c.client
}

// failure is what the API server says where it has no object to show.
func failure(status int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(status)}
}

// has makes these PVs, claims and pods all that the API server has. It lists the pods of this node only.
func has(t *testing.T, c *Controller, objects ...metav1.Object) {
	t.Helper()
	there := map[string]any{}
	claims := &corev1.PersistentVolumeClaimList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaimList"}}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.PersistentVolume:
			o = o.DeepCopy()
			o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
			there["/api/v1/persistentvolumes/"+o.Name] = o
		case *corev1.PersistentVolumeClaim:
			o = o.DeepCopy()
			o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
			there["/api/v1/namespaces/"+o.Namespace+"/persistentvolumeclaims/"+o.Name] = o
			claims.Items = append(claims.Items, *o)
		}
	}
	there["/api/v1/persistentvolumeclaims"] = claims
	answers(t, c, func(r *http.Request) (int, any) {
		if parts := strings.Split(r.URL.Path, "/"); parts[len(parts)-1] == "pods" && r.URL.Query().Get("fieldSelector") == "spec.nodeName="+c.node {
			return http.StatusOK, podList(objects, parts[len(parts)-2], c.node)
		}
		if o := there[r.URL.Path]; o != nil {
			return http.StatusOK, o
		}
		return http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound)
	})
}

func podList(objects []metav1.Object, namespace, node string) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok && pod.Namespace == namespace && pod.Spec.NodeName == node {
			list.Items = append(list.Items, *pod)
		}
	}
	return list
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
