// Package apitest gives tests a client of an API server whose answers they choose.
package apitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Answer returns the status and the object that a request gets.
type Answer func(*http.Request) (status int, object any)

// Client returns a client of an API server until the test ends, with requests in JSON for answer.
func Client(t *testing.T, answer Answer) kubernetes.Interface {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status, object := answer(r)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(api.Close)
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
}

// Failure is the object of an answer that is an error.
func Failure(status int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(status)}
}

// Paths answers a path below /api/v1 with its object, or with its status if that is an int. A page
// after the first has the path "list?continue". All other paths are not found.
func Paths(answers map[string]any) Answer {
	return func(r *http.Request) (int, any) {
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		if next := r.URL.Query().Get("continue"); next != "" {
			path += "?" + next
		}
		answer, ok := answers[path]
		switch status, failed := answer.(int); {
		case !ok:
			return http.StatusNotFound, Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
		case failed && status == http.StatusForbidden:
			return status, Failure(status, metav1.StatusReasonForbidden)
		case failed:
			return status, Failure(status, metav1.StatusReasonInternalError)
		}
		return http.StatusOK, answer
	}
}

// Objects answers as an API server that has these nodes, namespaces, PVs, claims and
// pods alone. It lists the pods of the named node only.
func Objects(node string, objects ...metav1.Object) Answer {
	there := map[string]any{}
	claims := &corev1.PersistentVolumeClaimList{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
		Kind: "PersistentVolumeClaimList"}}
	kind := func(name string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: name} }
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			o = o.DeepCopy()
			o.TypeMeta = kind("Node")
			there["/api/v1/nodes/"+o.Name] = o
		case *corev1.Namespace:
			o = o.DeepCopy()
			o.TypeMeta = kind("Namespace")
			there["/api/v1/namespaces/"+o.Name] = o
		case *corev1.PersistentVolume:
			o = o.DeepCopy()
			o.TypeMeta = kind("PersistentVolume")
			there["/api/v1/persistentvolumes/"+o.Name] = o
		case *corev1.PersistentVolumeClaim:
			o = o.DeepCopy()
			o.TypeMeta = kind("PersistentVolumeClaim")
			there["/api/v1/namespaces/"+o.Namespace+"/persistentvolumeclaims/"+o.Name] = o
			claims.Items = append(claims.Items, *o)
		}
	}
	there["/api/v1/persistentvolumeclaims"] = claims
	return func(r *http.Request) (int, any) {
		parts := strings.Split(r.URL.Path, "/")
		if parts[len(parts)-1] == "pods" && r.URL.Query().Get("fieldSelector") == "spec.nodeName="+node {
			return http.StatusOK, podList(objects, parts[len(parts)-2], node)
		}
		if o := there[r.URL.Path]; o != nil {
			return http.StatusOK, o
		}
		return http.StatusNotFound, Failure(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
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

// Node returns a node of that name and hostname, and the namespace by whose UID the
// agent identifies the cluster.
func Node(name, hostname string, cluster types.UID) []metav1.Object {
	return []metav1.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: hostname}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: cluster}},
	}
}
