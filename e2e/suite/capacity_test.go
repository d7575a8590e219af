package suite

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// says returns nil where the object says what the metric says, rounded down to eleven leading bits.
func says(s *harness.Scene, a *harness.Agent, class string) error {
	s.Helper()
	is := metric(s, a, "kubevirt_hpp_pool_available_bytes")
	cut := max(0, bits.Len64(uint64(is))-11)
	if err := s.CapacityIs(class, a.Node, func(b int64) bool { return b == is>>cut<<cut }); err != nil {
		return fmt.Errorf("%w; %d bytes are available", err, is)
	}
	return nil
}

func capacityOf(s *harness.Scene, class string, node harness.Node) *storagev1.CSIStorageCapacity {
	s.Helper()
	o, err := s.Capacity(class, node)
	if err != nil {
		s.Fatal(err)
	}
	return o
}

// What the scheduler is told follows the pool, the classes, and nobody else. How soon it does, unit
// tests say.
func TestCapacity(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	a := smallCSI(s, "01")
	class := s.CSIClass("one", nil)
	match := func() error { return says(s, a, class) }
	s.Eventually("published", match)
	if err := s.CapacityIs(class, a.Node, func(b int64) bool { return b == a.Inspect().Space.Available>>18<<18 }); err != nil {
		t.Error(err) // it has 29 bits
	}
	o := capacityOf(s, class, a.Node)
	u := &uninstaller{Scene: s}
	table := u.must(u.run(u.line("troubleshooting.md", "kubectl get csistoragecapacities ")))
	if row := regexp.MustCompile(`(?m)^` + a.Node.Name + ` +` + class + ` +` + o.Capacity.String() + `$`); !row.MatchString(table) {
		t.Errorf("the columns of the page do not show %s of node %s:\n%s", o.Capacity, a.Node.Name, table)
	}
	want := map[string]string{
		"csi.storage.k8s.io/drivername": harness.Driver, "csi.storage.k8s.io/managed-by": "hostpath-provisioner-" + a.Node.Name,
		harness.LabelNode: a.Node.Name,
	}
	if len(o.OwnerReferences) > 0 || !maps.Equal(o.Labels, want) {
		t.Errorf("owners %v, labels %v; want none, %v", o.OwnerReferences, o.Labels, want)
	}

	size := half(s, a)
	claim := s.Create(harness.Claim{Class: class, Selected: a.Node.Name, Size: bytes(size)})
	s.Bound(claim)
	s.Eventually("less", func() error { return s.CapacityIs(class, a.Node, func(b int64) bool { return b < size }) })
	s.Eventually("less", match)
	s.Delete(claim)
	s.Gone(harness.PVName(claim))
	s.Eventually("more", match)

	before := capacityOf(s, class, a.Node).ResourceVersion
	a.Stop()
	a.Restart()
	a.AwaitReady()
	capacityPassed(s, a)
	s.Once("nothing written", func() error {
		if now := capacityOf(s, class, a.Node); now.ResourceVersion != before {
			return fmt.Errorf("written: %v", now)
		}
		return nil
	})
	tamperCapacity(s, a, class)
}

// capacityPassed waits until the agent has compared all capacity objects of its node: it publishes
// for a new class, the last by name, in a pass over all classes, which does not begin before the
// one in progress is over.
func capacityPassed(s *harness.Scene, a *harness.Agent) {
	s.Helper()
	last := s.CSIClass("zz-passed", nil)
	s.Eventually("published for a new class", func() error { _, err := s.Capacity(last, a.Node); return err })
}

// tamperCapacity deletes and edits the object, and lets classes come and go.
func tamperCapacity(s *harness.Scene, a *harness.Agent, class string) {
	s.Helper()
	objects, classes := env.Client.StorageV1().CSIStorageCapacities(harness.Namespace), env.Client.StorageV1().StorageClasses()
	must := func(err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
	}
	o := capacityOf(s, class, a.Node)
	must(objects.Delete(s.Context(), o.Name, metav1.DeleteOptions{}))
	s.Eventually("back", func() error { return says(s, a, class) })
	_, err := objects.Patch(s.Context(), o.Name, types.MergePatchType,
		[]byte(`{"capacity":"1Pi","maximumVolumeSize":"1Pi"}`), metav1.PatchOptions{})
	must(err)
	later := s.CSIClass("two", nil)
	s.Eventually("class has one", func() error { return says(s, a, later) })
	must(classes.Delete(s.Context(), later, metav1.DeleteOptions{}))
	s.Eventually("class has none", func() error {
		if n := len(s.Capacities(later, a.Node)); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	s.Eventually("put right", func() error { return says(s, a, class) })
}

// The objects are the DaemonSet's, as long as the pod is of one, and go with it.
func TestCapacityOwner(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	labels := map[string]string{"app": s.Name}
	sets := env.Client.AppsV1().DaemonSets(harness.Namespace)
	set, err := sets.Create(t.Context(), daemonSet(s.Name, labels, node.Name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pod string
	s.Eventually("pod", func() error {
		list, err := env.Client.CoreV1().Pods(harness.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + s.Name})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err == nil {
			pod = list.Items[0].Name
		}
		return err
	})
	o := local(node)
	o.Env = []string{"POD_NAME=" + pod}
	a := s.Agent(node, o)
	var owners []metav1.OwnerReference
	s.Eventually("published", func() error {
		o, err := s.Capacity(harness.ClassCSI, node)
		if err == nil {
			owners = o.OwnerReferences
		}
		return err
	})
	if len(owners) != 1 || owners[0].Kind != "DaemonSet" || owners[0].UID != set.UID || owners[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v, want DaemonSet %s with UID %s", owners, set.Name, set.UID)
	}
	a.Stop()
	if err := sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("gone with its owner", func() error {
		if n := len(s.Capacities(harness.ClassCSI, node)); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// daemonSet is one for that node, whose pod never runs.
func daemonSet(name string, labels map[string]string, node string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{harness.TopologyNode: node},
					Containers:   []corev1.Container{{Name: "agent", Image: "localhost/hpp-e2e/pause:latest"}},
				},
			},
		},
	}
}

// What others published of the driver for this node is removed, and nothing of another node.
func TestCapacityLeftovers(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node, other := s.Node("01"), s.Node("02")
	class := s.CSIClass("left", nil)
	much := resource.MustParse("1Pi")
	for _, n := range []harness.Node{node, other} {
		o := &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "csisc-", Namespace: harness.Namespace, Labels: map[string]string{
				"csi.storage.k8s.io/drivername": harness.Driver, "csi.storage.k8s.io/managed-by": "external-provisioner-" + n.Name,
			}},
			StorageClassName: class, Capacity: &much, MaximumVolumeSize: &much,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{harness.TopologyNode: n.Name}},
		}
		if _, err := env.Client.StorageV1().CSIStorageCapacities(harness.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	a := s.Agent(node, local(node))
	s.Eventually("ours alone", func() error {
		o, err := s.Capacity(class, a.Node)
		if err == nil && o.Labels[harness.LabelNode] != a.Node.Name {
			err = fmt.Errorf("labels %v", o.Labels)
		}
		return err
	})
	capacityPassed(s, a)
	s.Once("another node's", func() error {
		return s.CapacityIs(class, other, func(b int64) bool { return b == much.Value() })
	})
}

// A burst of claims is a handful of writes.
//
// Not parallel: the controller-manager binds one claim after the other, so those of other tests
// would wait behind these.
func TestCapacityBurst(t *testing.T) {
	const many = 100
	s, a := csiNode(t)
	class := s.CSIClass("burst", nil)
	s.Eventually("published", func() error { _, err := s.Capacity(class, a.Node); return err })
	o := capacityOf(s, class, a.Node)
	w, err := env.Client.StorageV1().CSIStorageCapacities(harness.Namespace).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Name).String(), ResourceVersion: o.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	begin := time.Now()
	claims := make([]*corev1.PersistentVolumeClaim, many)
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() { claims[i] = s.Create(harness.Claim{Class: class, Selected: a.Node.Name, Size: "64Mi"}) })
	}
	wg.Wait()
	for _, claim := range claims {
		s.Eventually("bound", func() error { return s.IsBound(claim) })
	}
	s.Eventually("published", func() error {
		want := o.Capacity.Value() - many*64<<20
		return s.CapacityIs(class, a.Node, func(b int64) bool { return b < want+many*64<<20/2 })
	})
	writes := 0
	for more := true; more; {
		select {
		case <-w.ResultChan():
			writes++
		case <-time.After(500 * time.Millisecond):
			more = false
		}
	}
	took := time.Since(begin)
	if most := 3 + int(took/time.Second); writes < 1 || writes > most {
		t.Errorf("%d writes in %s, want at least 1 and at most %d", writes, took, most)
	}
}

// An agent without the Role of its namespace says what it may not do, and goes on when it may.
func TestCapacityWithoutRole(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	kubeconfig, err := env.Plane.ServiceAccountKubeconfig(t.Context(), s.Namespace, "roleless")
	if err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "roleless"}}
	const role = "hostpath-provisioner-csi"
	_, err = env.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node := s.Node("01")
	o := local(node)
	o.Kubeconfig = kubeconfig
	a := s.Start(node, o)
	a.AwaitUnready(`capacity(.|\n)*cannot list resource "csistoragecapacities"(.|\n)*"hostpath-provisioner"`)
	if !regexp.MustCompile(`csistoragecapacities`).MatchString(a.Log()) {
		t.Error("the log does not say so")
	}
	_, err = env.Client.RbacV1().RoleBindings(harness.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.AwaitReady()
	s.Eventually("published", func() error { _, err := s.Capacity(harness.ClassCSI, node); return err })
}
