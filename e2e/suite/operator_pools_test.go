package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// backing is the class of the claims of pools. Its PVs are made by hand.
const backing = "backing"

// onClaims is a control plane with the operator, and kubelets that end the pods of Jobs.
type onClaims struct {
	*operated
	busy *atomic.Value // the last words of a Job's pod, "" if it unmounts
}

// pool is an entry of storagePools with a template.
func poolOn(name, class string, change func(template map[string]any)) map[string]any {
	template := map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
	if class != "" {
		template["storageClassName"] = class
	}
	if change != nil {
		change(template)
	}
	return map[string]any{"name": name, "path": "/srv/" + name, "pvcTemplate": template}
}

// twoGi has the claims of a pool request 2 GiB.
func twoGi(template map[string]any) {
	template["resources"] = map[string]any{"requests": map[string]any{"storage": "2Gi"}}
}

func (o *onClaims) setPools(pools ...any) {
	o.Helper()
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"storagePools": pools}})
	if err != nil {
		o.Fatal(err)
	}
	o.change(string(text))
}

// back makes a PV of the class for each node.
func (o *onClaims) back(name string) {
	o.Helper()
	for i := range o.nodes {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}, StorageClassName: backing,
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/backing"}},
			},
		}
		if _, err := o.Client.CoreV1().PersistentVolumes().Create(o.Context(), pv, metav1.CreateOptions{}); err != nil {
			o.Fatal(err)
		}
	}
}

// on returns the name of the claim and the Deployment of a pool on a node.
func on(pool string, node harness.Node) string { return "hpp-pool-" + pool + "-" + node.Name }

// poolsOnClaims starts a control plane with the operator, a class whose PVs are made by hand, and
// kubelets that end the pods of Jobs.
func poolsOnClaims(t *testing.T) *onClaims {
	t.Parallel()
	o := &onClaims{operate(t), &atomic.Value{}}
	o.busy.Store("")
	o.Jobs(func(*corev1.Pod) string { return o.busy.Load().(string) })
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: backing}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: new(bool)}
	*class.AllowVolumeExpansion = true
	if _, err := o.Client.StorageV1().StorageClasses().Create(o.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.back("good")
	return o
}

// poolRow is a part of the life of pools on claims. It starts with what the row before it left.
type poolRow struct {
	name string
	run  func(*onClaims)
}

// runs runs the rows until one fails.
func (o *onClaims) runs(rows ...poolRow) {
	t := o.TB.(*testing.T)
	for _, row := range rows {
		if !t.Run(row.name, func(t *testing.T) { row.run(&onClaims{o.in(t), o.busy}) }) {
			t.FailNow()
		}
	}
	operatorRole.note(o.Scene, o.audit)
}

// TestPoolTemplate has pools on claims: what is created for them, what is refused, and what is
// repaired.
func TestPoolTemplate(t *testing.T) {
	o := poolsOnClaims(t)
	quiet := func(o *onClaims) {
		if !testing.Short() { // half a minute in which nothing changes
			o.writesNothing(3)
		}
	}
	o.runs(poolRow{"refused", poolsRefused}, poolRow{"objects", poolObjects}, poolRow{"template", templateChanges},
		poolRow{"drift", holderDeleted}, poolRow{"quiet", quiet})
}

// TestPoolTemplateLeaves has pools on claims that move and go.
func TestPoolTemplateLeaves(t *testing.T) {
	o := poolsOnClaims(t)
	o.create(serving, map[string]any{"storagePools": []any{poolOn("good", backing, twoGi)}})
	o.healthy()
	o.runs(poolRow{"in use", poolInUse}, poolRow{"node leaves", nodeLeaves}, poolRow{"moved", poolMoves},
		poolRow{"delete", poolsDeleted}, poolRow{"killed", poolsKilled})
}

// poolsRefused has a pool for each thing that a user has to change, and one that is served beside
// them.
func poolsRefused(o *onClaims) {
	block := func(template map[string]any) { template["volumeMode"] = "Block" }
	shared := func(template map[string]any) { template["accessModes"] = []any{"ReadWriteMany"} }
	o.create(serving, map[string]any{"storagePools": []any{poolOn("good", backing, nil), poolOn("block", backing, block),
		poolOn("classless", "", nil), poolOn("missing", "none-such", nil), poolOn("shared", backing, shared)}})
	for _, words := range []string{"pool block: a pool needs a filesystem", "pool shared: nodes cannot share a pool",
		"claim " + on("missing", o.nodes[0]) + " is not bound: ProvisioningFailed: storageclass.storage.k8s.io \"none-such\" not found",
		"claim " + on("classless", o.nodes[1]) + " is not bound: FailedBinding: no persistent volumes available for this claim and no storage class is set"} {
		o.await("TTT", "StoragePoolUnsupported", words)
		o.Eventually("event "+words, func() error { return o.told(words) })
	}
	want := "block Preparing 0/2 [], classless Preparing 0/2 [Pending Pending], good Ready 2/2 [Bound Bound], missing Preparing 0/2 [Pending Pending], shared Preparing 0/2 []"
	o.Eventually("states", func() error { return o.states(want) })
	o.setPools(poolOn("good", backing, nil))
	o.healthy()
	for _, pool := range []string{"classless", "missing"} {
		for _, node := range o.nodes {
			o.gone("apps/v1/deployments", on(pool, node))
			o.get("/v1/persistentvolumeclaims", on(pool, node)) // claims are never deleted
		}
	}
}

// told returns nil if an event of the resource has the words.
func (o *onClaims) told(words string) error {
	list, err := o.Client.CoreV1().Events(metav1.NamespaceAll).List(o.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=HostPathProvisioner"})
	for _, e := range list.Items {
		if strings.Contains(e.Message, words) {
			return nil
		}
	}
	return errors.Join(err, errors.New("no such event"))
}

// states compares storagePoolStatuses with text, a pool as "NAME PHASE READY/DESIRED [CLAIM
// PHASES]".
func (o *onClaims) states(want string) error {
	cr, err := resources(o.Scene).Get(o.Context(), serving, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var status struct {
		Status struct {
			StoragePoolStatuses []struct {
				Name, Phase                string
				DesiredReady, CurrentReady int
				ClaimStatuses              []struct {
					Name   string
					Status corev1.PersistentVolumeClaimStatus
				}
			}
		}
	}
	convert(o.TB.(*testing.T), cr.Object, &status)
	all := []string{}
	for _, p := range status.Status.StoragePoolStatuses {
		claims := []string{}
		for i, c := range p.ClaimStatuses {
			claims = append(claims, string(c.Status.Phase))
			if c.Name != on(p.Name, o.nodes[i]) {
				return fmt.Errorf("pool %s has claim %s", p.Name, c.Name)
			}
		}
		all = append(all, fmt.Sprintf("%s %s %d/%d %v", p.Name, p.Phase, p.CurrentReady, p.DesiredReady, claims))
	}
	if got := strings.Join(all, ", "); got != want {
		return fmt.Errorf("%s, want %s", got, want)
	}
	return nil
}

func (o *onClaims) gone(kind, name string) {
	o.Helper()
	o.Eventually(name+" gone", func() error {
		_, err := o.kind(kind).Get(o.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// poolObjects reads what there is for a pool on a node.
func poolObjects(o *onClaims) {
	for _, node := range o.nodes {
		claim, d := o.get("/v1/persistentvolumeclaims", on("good", node)), o.holder(node)
		if len(claim.GetOwnerReferences()) != 0 || len(d.OwnerReferences) != 1 || d.OwnerReferences[0].Kind != "HostPathProvisioner" {
			o.Errorf("owners %v and %v", claim.GetOwnerReferences(), d.OwnerReferences)
		}
		for _, labels := range []map[string]string{claim.GetLabels(), d.Labels} {
			if labels["kubevirt.io.hostpath-provisioner/storagePool"] != "good-hpp" || labels["k8s-app"] != "hostpath-provisioner" {
				o.Errorf("labels %v", labels)
			}
		}
		if got := d.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, []string{"hold", "--claim=/run/claim", "--path=/srv/good/csi", "--pool=good", "--claim-uid=" + string(claim.GetUID())}) {
			o.Errorf("arguments %q", got)
		}
	}
	if err := o.hasVariables(`DATADIR=[{"name":"good","path":"/srv/good/csi","mount":"/srv/good/csi"}]`); err != nil {
		o.Error(err)
	}
	drained(o)
	o.healthy()
}

// drained has a node drained: nothing forbids the eviction of the holder, and its next pod is on
// the node although that takes no other pods.
func drained(o *onClaims) {
	node := o.nodes[0]
	cordon := func(on bool) {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on)
		if _, err := o.Client.CoreV1().Nodes().Patch(o.Context(), node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			o.Fatal(err)
		}
	}
	cordon(true)
	defer cordon(false)
	pods := func() []corev1.Pod {
		list, err := o.Client.CoreV1().Pods(harness.Namespace).List(o.Context(), metav1.ListOptions{LabelSelector: "hpp-pool=good-hpp",
			FieldSelector: "spec.nodeName=" + node.Name})
		if err != nil {
			o.Fatal(err)
		}
		return list.Items
	}
	before := pods()
	if len(before) != 1 {
		o.Fatalf("%d pods hold pool good on node %s", len(before), node.Name)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: before[0].Name}}
	if err := o.Client.CoreV1().Pods(harness.Namespace).EvictV1(o.Context(), eviction); err != nil {
		o.Fatal(err)
	}
	o.Eventually("the holder is back", func() error {
		now := pods()
		if len(now) != 1 || now[0].UID == before[0].UID {
			return fmt.Errorf("%d pods, or the pod that was evicted", len(now))
		}
		return o.states("good Ready 2/2 [Bound Bound]")
	})
}

func (o *onClaims) holder(node harness.Node) *appsv1.Deployment {
	o.Helper()
	d, err := o.Client.AppsV1().Deployments(harness.Namespace).Get(o.Context(), on("good", node), metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	return d
}
