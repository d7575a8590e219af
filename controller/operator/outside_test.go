package operator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("unreachable")
}

// A simulation runs several operators in one process, on invented time, which a socket would stop.
func TestManyOperatorsInOneProcess(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(began) + time.Hour) // client-go waits until after the last error that it logged
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		scheme, err := Scheme()
		if err != nil {
			t.Fatal(err)
		}
		kinds := meta.NewDefaultRESTMapper(nil)
		for kind := range scheme.AllKnownTypes() {
			kinds.Add(kind, meta.RESTScopeNamespace)
		}
		reviews := make(chan admission.Handler, 2)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				err := Settings{Namespace: "ns", Image: "image"}.RunIn(ctx, &rest.Config{Transport: unreachable{}, QPS: -1},
					Outside{Metrics: prometheus.NewRegistry(), Admission: func(h admission.Handler) { reviews <- h },
						Mapper: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds, nil }})
				if err != nil {
					t.Errorf("before its context ended: %v", err)
				}
			})
		}
		all.Wait()
		if len(reviews) != 2 || ctx.Err() == nil {
			t.Errorf("%d of 2 operators ran until their context ended (%v)", len(reviews), ctx.Err())
		}
	})
}
