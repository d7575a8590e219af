package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// cluster is an API server whose agents all run in this process.
type cluster struct {
	*testing.T
	*fake.Clientset
	base  string       // of the pools
	steps atomic.Int64 // changes of all agents to their disks
}

func newCluster(t *testing.T, nodes ...string) *cluster {
	c := &cluster{T: t, Clientset: fake.NewClientset(classtest.Class("wait")), base: t.TempDir()}
	c.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	c.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if a.(clienttesting.WatchActionImpl).ListOptions.SendInitialEvents != nil { // informers list then
			return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "sendInitialEvents", nil)
		}
		return false, nil, nil
	})
	for _, name := range nodes {
		for _, o := range apitest.Node(name, name, "cluster") {
			_ = c.Tracker().Add(o.(runtime.Object))
		}
	}
	return c
}

// start returns an agent of a node that is ready, and a function that ends it.
func (c *cluster) start(node string) (a *Agent, end func()) {
	c.Helper()
	o, err := Parse("test", []string{"--node-name=" + node, "--pv-dir=" + filepath.Join(c.base, node)}, io.Discard)
	if err != nil {
		c.Fatal(err)
	}
	a, err = New(o, Outside{Client: apitest.Listing(c.Clientset), Step: func(string) { c.steps.Add(1) }, Probe: 10 * time.Millisecond})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }()
	c.eventually("agent of "+node, a.Ready)
	return a, func() {
		cancel()
		if err := <-served; err != nil {
			c.Errorf("agent of %s: %v", node, err)
		}
		a.Close()
	}
}

// claim creates a claim of a node, and waits for its PV.
func (c *cluster) claim(uid, node string) {
	c.Helper()
	claim := classtest.Claim(uid, "wait", "", contract.AnnSelectedNode, node, contract.AnnStorageProvisioner, contract.HostPathProvisioner)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	if _, err := c.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(c.Context(), claim, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.eventually("claim "+uid, func() error {
		pv, err := c.CoreV1().PersistentVolumes().Get(c.Context(), "pvc-"+uid, metav1.GetOptions{})
		if err == nil && !strings.HasPrefix(pv.Spec.HostPath.Path, filepath.Join(c.base, node)+"/") {
			c.Errorf("PV %s is in %s, not on %s", pv.Name, pv.Spec.HostPath.Path, node)
		}
		return err
	})
}

func (c *cluster) eventually(what string, do func() error) {
	c.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err := do(); err == nil {
			return
		} else if time.Now().After(end) {
			c.Fatalf("%s: %v", what, err)
		}
	}
}

// A pool whose disk is gone makes the pool not ready, and not the agent: the kubelet's probe succeeds,
// so that a rollout goes on.
func TestProbeAsksNoDisk(t *testing.T) {
	clean(t)
	c := newCluster(t, "node-01")
	a, end := c.start("node-01")
	defer end()
	probe := func(path string) int {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if err := os.Rename(filepath.Join(c.base, "node-01"), filepath.Join(c.base, "away")); err != nil {
		t.Fatal(err)
	}
	c.eventually("the pool is not ready", func() error {
		if probe("/readyz") == http.StatusOK {
			return errors.New("/readyz is 200")
		}
		return nil
	})
	if probed, serves := probe(contract.ProbePath), a.Serves(); probed != http.StatusOK || serves != nil {
		t.Errorf("%s: %d, %v", contract.ProbePath, probed, serves)
	}
}

// The agents of two nodes run in one process and listen nowhere. One ends and starts again while the
// other one serves.
func TestAgentsInOneProcess(t *testing.T) {
	clean(t)
	c := newCluster(t, "node-01", "node-02")
	_, end := c.start("node-01")
	second, endSecond := c.start("node-02")
	c.claim("a", "node-01")
	c.claim("b", "node-02")
	end()
	_, end = c.start("node-01")
	c.claim("c", "node-01")
	c.claim("d", "node-02")
	w := httptest.NewRecorder()
	second.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusOK || c.steps.Load() == 0 {
		t.Errorf("%d steps, %d %s", c.steps.Load(), w.Code, w.Body)
	}
	end()
	endSecond()
}
