package cluster

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
)

func TestAgentSettings(t *testing.T) {
	driver := []string{"--endpoint=unix:///csi/csi.sock"}
	for name, row := range map[string]struct {
		pod     *corev1.Pod
		driver  bool
		sidecar bool
		metrics string
	}{
		"hostPath":           {agentPod(nil), false, false, "http 9898"},
		"driver":             {agentPod(driver, "PROVISION", "csi"), true, false, "http 9898"},
		"driver-only":        {agentPod(driver), false, true, "https 8443"},
		"driver-only, plain": {agentPod(append(driver, "--http-address", ":9898")), false, true, "http 9898"},
		"TLS beside HTTP":    {agentPod(nil, "HPP_METRICS_ADDRESS", ":8443"), false, false, "http 9898"},
		"TLS only":           {agentPod([]string{"--http-address=", "--metrics-address=10.0.0.1:1234"}), false, false, "https 1234"},
		"none":               {agentPod([]string{"--http-address="}), false, false, "it serves no metrics"},
		"tokens":             {agentPod([]string{"--metrics-address=:8443", "--metrics-auth=token"}), false, false, "tokens only"},
		"disks":              {agentPod([]string{"disks"}), false, false, "http 8080"},
		"disks elsewhere":    {agentPod([]string{"disks"}, "LP_METRICS_ADDR", ":81"), false, false, "http 81"},
	} {
		a := agentOf(row.pod)
		if a.IsDriver() != row.driver || a.Sidecar != row.sidecar || a.ServiceAccount != "account" {
			t.Errorf("%s: %+v", name, a)
		}
		metrics := "http " + a.MetricsPort
		if a.MetricsTLS {
			metrics = "https " + a.MetricsPort
		}
		if a.NoMetrics != "" {
			metrics = a.NoMetrics
		}
		if !strings.Contains(metrics, row.metrics) {
			t.Errorf("%s: metrics at %q, want %q", name, metrics, row.metrics)
		}
	}
}

func TestMetrics(t *testing.T) {
	agent := Agent{Node: "node-01", Namespace: "hpp", Pod: "agent-1", MetricsPort: "9898"}
	for text, want := range map[string]string{
		"pool_ready{pool=\"a\"} 1\n": "",
		"pool_ready{pool=":           "cannot read its metrics: ",
	} {
		m := ParseMetrics(agent, []byte("# TYPE pool_ready gauge\n"+text))
		if !strings.Contains(m.Unknown, want) || want == "" && m.Unknown != "" {
			t.Errorf("%q: unknown %q, want %q", text, m.Unknown, want)
		}
		if samples := m.Samples("pool_ready"); want == "" && (len(samples) != 1 || samples[0].Value != 1 || samples[0].Labels["pool"] != "a") {
			t.Errorf("%q: samples %v", text, samples)
		}
	}
	agent.MetricsTLS = true
	for status, want := range map[int]string{
		http.StatusForbidden:          "may not get pods/proxy in the namespace hpp",
		http.StatusServiceUnavailable: "its metrics: the API server does not reach the pod, code 503",
		http.StatusUnauthorized:       "its metrics: the answer has the code 401",
	} {
		client := apitest.Client(t, func(r *http.Request) (int, any) {
			if r.URL.Path != "/api/v1/namespaces/hpp/pods/https:agent-1:9898/proxy/metrics" {
				t.Errorf("asked %s", r.URL.Path)
			}
			reason := metav1.StatusReason("")
			if status == http.StatusForbidden {
				reason = metav1.StatusReasonForbidden
			}
			return status, apitest.Failure(status, reason)
		})
		if m := (Reader{Client: client}).Metrics(t.Context(), agent); m.Unknown != want {
			t.Errorf("%d: unknown %q, want %q", status, m.Unknown, want)
		}
	}
	slow := apitest.Client(t, func(r *http.Request) (int, any) {
		<-r.Context().Done()
		return http.StatusOK, nil
	})
	all := Reader{Client: slow}.AllMetrics(t.Context(), []Agent{agent, {Pod: "pending"}}, 10*time.Millisecond)
	if all[0].Unknown != "its metrics: no answer in time (--timeout)" || all[1].Unknown != "its pod does not run" {
		t.Errorf("a dead node: %q, a pod without one: %q", all[0].Unknown, all[1].Unknown)
	}
}

// Each account is reviewed once for what its agents need, or the sidecar beside them.
func TestAccounts(t *testing.T) {
	client := fake.NewClientset()
	refused := map[string]bool{"patch persistentvolumes": true, "create csistoragecapacities": true}
	reviews := map[string]int{}
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		what := review.Spec.ResourceAttributes
		reviews[review.Spec.User]++
		if what.Resource == "csistoragecapacities" && what.Namespace != "hpp" {
			t.Errorf("csistoragecapacities in namespace %q", what.Namespace)
		}
		review.Status.Allowed = !refused[what.Verb+" "+what.Resource]
		return true, review, nil
	})
	driver := Agent{Namespace: "hpp", ServiceAccount: "a", Container: "c", Driver: "d", Provisioners: []string{"d"}, Process: NodeAgent}
	beside := Agent{Namespace: "hpp", ServiceAccount: "s", Container: "c", Driver: "d", Sidecar: true, Process: NodeAgent}
	disks := Agent{Namespace: "hpp", ServiceAccount: "d", Container: "c", Process: DiskAgent}
	all := Reader{Client: client}.Accounts(t.Context(), []Agent{driver, driver, beside, disks})
	if len(all) != 3 || len(reviews) != 3 || reviews["system:serviceaccount:hpp:s"] != 22 || reviews["system:serviceaccount:hpp:a"] != 30 {
		t.Fatalf("accounts %v, reviews %v", all, reviews)
	}
	if got, want := all[0].Missing, "patch persistentvolumes create csistoragecapacities"; len(got) != 2 || string(got[0])+" "+string(got[1]) != want {
		t.Errorf("missing %v, want %s", got, want)
	}
	if len(all[1].Missing) != 2 || len(all[2].Missing) != 0 || all[2].Unknown != "" {
		t.Errorf("sidecar %+v, disks %+v", all[1], all[2])
	}
}

func TestClock(t *testing.T) {
	clock := &Clock{}
	if _, known := clock.Now(); known {
		t.Error("the time is known before an answer")
	}
	date := time.Now().Add(-time.Hour).Truncate(time.Second)
	transport := clock.Wrap(answers(func() *http.Response {
		return &http.Response{Header: http.Header{"Date": {date.UTC().Format(http.TimeFormat)}}}
	}))
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://api", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(request); err != nil {
		t.Fatal(err)
	}
	if now, known := clock.Now(); !known || now.Sub(date) > time.Minute || now.Before(date) {
		t.Errorf("%s, %v, want %s", now, known, date)
	}
}

type answers func() *http.Response

func (a answers) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }

func TestNamespaces(t *testing.T) {
	got := Namespaces([]Agent{{Namespace: "b"}, {Namespace: "a"}, {Namespace: "b"}}, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "c"}})
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
}
