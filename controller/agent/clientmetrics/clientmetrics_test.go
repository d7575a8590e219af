package clientmetrics_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"kubevirt.io/hostpath-provisioner/controller/agent/clientmetrics"
)

// What a client and a queue of client-go do is counted. Both are in one test because client-go
// accepts one receiver in a process.
func TestMetrics(t *testing.T) {
	m := clientmetrics.New()
	m.Install()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Collectors()...)

	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{}); err == nil {
			t.Fatal("there is a node")
		}
	}
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "work"})
	defer queue.ShutDown()
	queue.Add("a")
	queue.Add("b")
	queue.AddRateLimited("c")
	item, _ := queue.Get()
	queue.Done(item)

	for name, want := range map[string]float64{
		"rest_client_requests_total": 3, "rest_client_request_duration_seconds": 3, "workqueue_retries_total": 1,
		"workqueue_queue_duration_seconds": 1, "workqueue_work_duration_seconds": 1,
	} {
		if got := sum(t, registry, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for end := time.Now().Add(10 * time.Second); sum(t, registry, "workqueue_adds_total") != 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v adds, want 3", sum(t, registry, "workqueue_adds_total"))
		}
	}
	if got := sum(t, registry, "workqueue_depth"); got != 2 {
		t.Errorf("depth %v, want 2", got)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// sum adds the values of all series of the metric; of a histogram, the observations.
func sum(t *testing.T, registry *prometheus.Registry, name string) (total float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}
