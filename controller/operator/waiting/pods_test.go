package waiting

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed/installedtest"
)

// A pod that names its node is not scheduled, so no scheduler chooses a node for its claim. The claim
// gets an event, by a list of the namespace's pods once in ten minutes.
func TestPodNamesItsNode(t *testing.T) {
	pod := func(name, node, claim string, edit ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node,
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
		for _, e := range edit {
			e(p)
		}
		return p
	}
	for name, row := range map[string]struct {
		provisioner string
		pods        []*corev1.Pod
		live        func(*corev1.PersistentVolumeClaim) // what the cache does not show yet
		want        []string
	}{
		"it names one":     {contract.CSIProvisioner, []*corev1.Pod{pod("db", "node-01", "data")}, nil, []string{"pod db names its node node-01 itself", "nodeSelector"}},
		"hostPath":         {contract.HostPathProvisioner, []*corev1.Pod{pod("db", "node-01", "data")}, nil, []string{"annotate this claim with kubevirt.io/provisionOnNode"}},
		"no pod":           {contract.CSIProvisioner, nil, nil, nil},
		"waits for a node": {contract.CSIProvisioner, []*corev1.Pod{pod("db", "", "data")}, nil, nil},
		"of another claim": {contract.CSIProvisioner, []*corev1.Pod{pod("db", "node-01", "other")}, nil, nil},
		"ended":            {contract.CSIProvisioner, []*corev1.Pod{pod("db", "node-01", "data", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, nil, nil},
		"scheduled since": {contract.CSIProvisioner, []*corev1.Pod{pod("db", "node-01", "data")}, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{contract.AnnSelectedNode: "node-01"}
		}, nil},
		"bound since":          {contract.CSIProvisioner, []*corev1.Pod{pod("db", "node-01", "data")}, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, nil},
		"another of that name": {contract.CSIProvisioner, []*corev1.Pod{pod("db", "node-01", "data")}, func(c *corev1.PersistentVolumeClaim) { c.UID = "2" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene()
				s.sc.Provisioner, s.claim.Annotations = row.provisioner, nil
				cache := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(s.objects()...).Build()
				if row.live != nil {
					row.live(s.claim)
				}
				client := kubefake.NewClientset(s.objects()...)
				for _, p := range row.pods {
					if _, err := client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				client.ClearActions()
				recorder := newRecorder(t, client)
				defer recorder.Close()
				r := &Reconciler{Namespace: "agents", Cache: cache, Live: apitest.Listing(client), Events: recorder, Installed: installedtest.Beside(""),
					since: map[types.NamespacedName]seen{}}
				for end := time.Now().Add(time.Hour); time.Now().Before(end); {
					next, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "data"}})
					if err != nil || next.RequeueAfter < time.Second {
						t.Fatal(next, err)
					}
					time.Sleep(next.RequeueAfter)
				}
				lists, gets := 0, 0
				for _, a := range client.Actions() {
					switch a.GetVerb() + " " + a.GetResource().Resource {
					case "list pods":
						lists++
					case "get persistentvolumeclaims":
						gets++
					}
				}
				if lists > 6 || gets > 6 {
					t.Errorf("%d lists of pods and %d reads of the claim in an hour", lists, gets)
				}
				got := strings.Join(messages(t, client), "\n")
				for _, word := range row.want {
					if !strings.Contains(got, word) {
						t.Errorf("events %q, want %q", got, word)
					}
				}
				if row.want == nil && got != "" {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// Of pods with volumes without end only those of claims that wait are kept.
func TestPodsOfOtherClaimsAreNotKept(t *testing.T) {
	s := newScene()
	client := kubefake.NewClientset(s.objects()...)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "many"}, Spec: corev1.PodSpec{NodeName: "node-01"}}
	for i := range 10_000 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("claim-%d", i)}}})
	}
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Live: apitest.Listing(client), since: map[types.NamespacedName]seen{{Namespace: "ns", Name: "claim-7"}: {}}}
	if p := r.podsOf(t.Context(), "ns"); len(p.node) != 1 {
		t.Errorf("%d claims are kept", len(p.node))
	}
}

// A list that fails, as with an older role, is one request in ten minutes, whatever claims wait, and no
// error. One page has a bound.
func TestPodsAreListedInPages(t *testing.T) {
	var limits []string
	client := apitest.Client(t, func(r *http.Request) (int, any) {
		limits = append(limits, r.URL.Query().Get("limit"))
		if len(limits) == 1 {
			return http.StatusForbidden, apitest.Failure(http.StatusForbidden, metav1.StatusReasonForbidden)
		}
		return http.StatusOK, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	})
	s := newScene()
	s.claim.Annotations = nil
	r := &Reconciler{Namespace: "agents", Live: client, Events: newRecorder(t, client)}
	p, _ := placeOf(s.claim, s.sc)
	for range 2 {
		for range 10 {
			if err := r.act(t.Context(), s.claim, s.sc, p, absence{}); err != nil {
				t.Error(err)
			}
		}
		for namespace, pods := range r.pods { // ten minutes later
			pods.at = pods.at.Add(-podsEvery)
			r.pods[namespace] = pods
		}
	}
	if len(limits) != 2 || limits[1] == "" || limits[1] == "0" {
		t.Errorf("limits %q in 20 minutes, want two requests of pages", limits)
	}
}
