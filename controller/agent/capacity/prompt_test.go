package capacity

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// prompt is how long an object may lag behind its class and its node: a pass that runs already, the
// pause after it, and the next.
const prompt = 2 * pace

// publishing is a publisher that runs, with the class "local" and a pool of that name.
type publishing struct {
	*testing.T
	p      *Publisher
	pool   *volume.Pool
	client *fake.Clientset
}

// publish runs test in a bubble, in which time passes only while everything waits. The objects are
// there before the publisher starts.
func publish(t *testing.T, test func(*publishing), objects ...runtime.Object) {
	publishOf(t, volume.Config{}, test, objects...)
}

// publishOf is publish with more of the pool's configuration.
func publishOf(t *testing.T, c volume.Config, test func(*publishing), objects ...runtime.Object) {
	dir := filepath.Join(t.TempDir(), "pool")
	synctest.Test(t, func(t *testing.T) {
		c.Name, c.Path = "local", dir
		pool, err := volume.New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		if err := pool.Open(); err != nil {
			t.Fatal(err)
		}
		pools, err := volume.NewPools(pool)
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewClientset(append(objects, classNamed("one"))...)
		client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
			// The fake never ends the initial events, for which an informer would wait. It lists
			// after an error.
			initial := a.(clienttesting.WatchActionImpl).ListOptions.SendInitialEvents != nil
			return initial, nil, errors.New("initial events are not supported")
		})
		p, err := New(Config{Client: client, Node: "node-01", Driver: "driver.example", Namespace: "agents", Pools: pools})
		if err != nil {
			t.Fatal(err)
		}
		go p.Run(t.Context())
		x := &publishing{T: t, p: p, pool: pool, client: client}
		elapse(prompt)
		if x.object("one") == nil {
			t.Fatal("the class has no object")
		}
		test(x)
	})
}

func classNamed(name string) *storagev1.StorageClass {
	delayed := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "driver.example", VolumeBindingMode: &delayed,
		Parameters: map[string]string{"storagePool": "local"}}
}

// object returns the object of a class, nil if there is none.
func (x *publishing) object(class string) *storagev1.CSIStorageCapacity {
	x.Helper()
	o, err := x.client.StorageV1().CSIStorageCapacities("agents").Get(x.Context(), objectName("driver.example", "node-01", class), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		x.Fatal(err)
	}
	return o
}

// current checks that the object of a class has the size that was published last, and that this is
// what is available in the pool now. Of the available space, a fiftieth may be what other programs
// have written to the disk or removed since then.
func (x *publishing) current(what, class string) {
	x.Helper()
	s, err := x.pool.Space()
	if err != nil {
		x.Fatal(err)
	}
	o := x.object(class)
	if o == nil {
		x.Errorf("%s: no object", what)
		return
	}
	last, now := x.p.written[o.Name], roundDown(s.Available)
	if bytesOf(o) != last.bytes || last.allocated != s.Allocated || max(last.bytes, now)-min(last.bytes, now) >= now/50 {
		x.Errorf("%s: %+v, published %+v, now %+v", what, o, last, s)
	}
}

// The object of a class follows what happens on its node, the class, and others' changes.
func TestPublishesPromptly(t *testing.T) {
	publish(t, func(x *publishing) {
		x.current("published", "one")
		before := bytesOf(x.object("one"))
		if _, err := x.pool.Create(volume.Spec{Name: "half", Bytes: before / 2}); err != nil {
			x.Fatal(err)
		}
		x.p.Changed(x.pool)
		elapse(prompt)
		if got := bytesOf(x.object("one")); got > before*5/8 {
			x.Errorf("%d bytes are published after half of %d were allocated", got, before)
		}
		x.current("allocated", "one")

		classes, objects := x.client.StorageV1().StorageClasses(), x.client.StorageV1().CSIStorageCapacities("agents")
		if _, err := classes.Create(x.Context(), classNamed("two"), metav1.CreateOptions{}); err != nil {
			x.Fatal(err)
		}
		elapse(prompt)
		x.current("another class", "two")
		if err := classes.Delete(x.Context(), "two", metav1.DeleteOptions{}); err != nil {
			x.Fatal(err)
		}
		elapse(prompt)
		if o := x.object("two"); o != nil {
			x.Errorf("the class is gone, and its object there: %+v", o)
		}
		name := x.object("one").Name
		if err := objects.Delete(x.Context(), name, metav1.DeleteOptions{}); err != nil {
			x.Fatal(err)
		}
		elapse(prompt)
		x.current("deleted by another", "one")
		_, err := objects.Patch(x.Context(), name, types.MergePatchType, []byte(`{"capacity":"1Pi","maximumVolumeSize":"1Pi"}`), metav1.PatchOptions{})
		if err != nil {
			x.Fatal(err)
		}
		elapse(tampered + readEvery)
		x.current("changed by another", "one")
		if o := x.object("one"); o.Capacity.Cmp(resource.MustParse("1Pi")) == 0 {
			x.Error("another's size stays")
		}
	})
}

// However many volumes are made, the objects are written once a second at most.
func TestPublishesSeldom(t *testing.T) {
	publish(t, func(x *publishing) {
		size := bytesOf(x.object("one")) / 200
		x.client.ClearActions()
		const burst = 10 * time.Second
		for i := range 100 {
			if _, err := x.pool.Create(volume.Spec{Name: strconv.Itoa(i), Bytes: size}); err != nil {
				x.Fatal(err)
			}
			x.p.Changed(x.pool)
			elapse(burst / 100)
		}
		elapse(prompt)
		x.current("after the burst", "one")
		writes := 0
		for _, a := range x.client.Actions() {
			if a.GetVerb() == "update" && a.GetResource().Resource == "csistoragecapacities" {
				writes++
			}
		}
		if most := 1 + int((burst+prompt)/pace); writes == 0 || writes > most {
			x.Errorf("%d writes, want at least one and at most %d", writes, most)
		}
	})
}

// An agent removes what others published for its node, and leaves the operator's objects for nodes
// that an autoscaler may add: when it starts, and when it sees that they change.
func TestLeavesTemplateNodes(t *testing.T) {
	of := func(name string, topology map[string]string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Namespace: "agents", Name: name, Labels: map[string]string{labelDriver: "driver.example"}},
			StorageClassName: "one", NodeTopology: &metav1.LabelSelector{MatchLabels: topology},
		}
	}
	publish(t, func(x *publishing) {
		objects := x.client.StorageV1().CSIStorageCapacities("agents")
		if _, err := objects.Create(x.Context(), of("later", map[string]string{contract.LabelTemplateNode: "true"}), metav1.CreateOptions{}); err != nil {
			x.Fatal(err)
		}
		x.p.requestPass()
		elapse(prompt)
		for name, stays := range map[string]bool{"sidecar": false, "template": true, "template-of-the-node": true, "later": true} {
			_, err := objects.Get(x.Context(), name, metav1.GetOptions{})
			if stays && err != nil || !stays && !apierrors.IsNotFound(err) {
				x.Errorf("%s: %v", name, err)
			}
		}
	},
		of("sidecar", map[string]string{contract.TopologyNode: "node-01"}),
		of("template", map[string]string{contract.LabelTemplateNode: "true"}),
		of("template-of-the-node", map[string]string{contract.LabelTemplateNode: "true", contract.TopologyNode: "node-01"}))
}
