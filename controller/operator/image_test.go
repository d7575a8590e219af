package operator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The agents run the image of the operator's pod, unless the environment names another.
func TestWithImage(t *testing.T) {
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec:     corev1.PodSpec{Containers: []corev1.Container{{Name: "mesh", Image: "mesh:v1"}, {Name: operatorContainer, Image: "ours:v2"}}},
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/api/v1/namespaces/ns/pods/operator-x" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(pod)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}

	own := Settings{Namespace: "ns", Pod: "operator-x"}
	if got, err := own.WithImage(t.Context(), config); err != nil || got.Image != "ours:v2" {
		t.Errorf("image %q, %v", got.Image, err)
	}
	asked = 0
	if got, err := (Settings{Namespace: "ns", Pod: "operator-x", Image: "named:v1"}).WithImage(t.Context(), config); err != nil || got.Image != "named:v1" || asked > 0 {
		t.Errorf("image %q after %d requests, %v", got.Image, asked, err)
	}
	if _, err := (Settings{Namespace: "ns", Pod: "another"}).WithImage(t.Context(), config); err == nil || !strings.Contains(err.Error(), "ns/another") {
		t.Errorf("a pod that does not exist: %v", err)
	}
	pod.Spec.Containers = pod.Spec.Containers[:1]
	if _, err := own.WithImage(t.Context(), config); err == nil || !strings.Contains(err.Error(), "OPERATOR_IMAGE") {
		t.Errorf("a pod without the container: %v", err)
	}
}
