package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
)

// Listing returns a client that does what the fake one does, its reactors included, and also
// answers the requests of package live, which lists claims, PVs and pods without the typed clients. A
// fake client has none for that.
func Listing(client *fake.Clientset) Lister { return Lister{client} }

// Lister is the client of Listing.
type Lister struct{ *fake.Clientset }

// CoreV1 returns the client of the core API.
func (l Lister) CoreV1() typed.CoreV1Interface { return core{l.Clientset.CoreV1()} }

type core struct{ typed.CoreV1Interface }

func (c core) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         corev1.SchemeGroupVersion,
		VersionedAPIPath:     "/api/v1",
		Client:               restfake.CreateHTTPClient(c.list),
	}
}

func (c core) list(r *http.Request) (*http.Response, error) {
	var all runtime.Object
	var err error
	o := metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector"),
		FieldSelector: r.URL.Query().Get("fieldSelector")}
	namespace := metav1.NamespaceAll
	if _, in, has := strings.Cut(r.URL.Path, "/namespaces/"); has {
		namespace, _, _ = strings.Cut(in, "/")
	}
	switch kind := path.Base(r.URL.Path); kind {
	case "persistentvolumes":
		all, err = c.PersistentVolumes().List(r.Context(), o)
	case "persistentvolumeclaims":
		all, err = c.PersistentVolumeClaims(namespace).List(r.Context(), o)
	case "pods":
		all, err = c.Pods(namespace).List(r.Context(), o)
	default:
		err = apierrors.NewBadRequest("Listing does not list " + kind)
	}
	code := http.StatusOK
	if err != nil {
		status := apierrors.NewInternalError(err).Status()
		if known := apierrors.APIStatus(nil); errors.As(err, &known) {
			status = known.Status()
		}
		code, all = int(status.Code), &status
	}
	if kinds, _, err := scheme.Scheme.ObjectKinds(all); err == nil {
		all.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	data, err := json.Marshal(all)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body: io.NopCloser(bytes.NewReader(data)),
	}, err
}
