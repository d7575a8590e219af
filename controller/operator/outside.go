package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/metricsauth"
)

// Addresses are those on which the operator listens; "0" is none.
type Addresses struct {
	Health, Metrics, Webhook string
}

// Outside is what an operator shares with its process and its machine. The zero value shares
// nothing, so one process may run any number of such operators.
type Outside struct {
	// Listen are the addresses; nil is none.
	Listen *Addresses
	// Metrics registers the collectors of the operator; nil registers none.
	Metrics prometheus.Registerer
	// Gatherer has the metrics that Listen.Metrics serves; nil serves none.
	Gatherer prometheus.Gatherer
	// Mapper returns the resources of the kinds; nil asks the API server for them.
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Admission receives the handler of reviews that the webhook's address would serve, if Listen is
	// nil. The handler reads the operator's cache. Admission may be nil.
	Admission func(admission.Handler)
}

// manage adds what is outside to the options of a manager.
func (o Outside) manage(options *manager.Options) {
	listen := o.Listen
	if listen == nil {
		listen = &Addresses{Health: "0", Metrics: "0"}
		// The names are labels of metrics, which several operators of one process share.
		options.Controller = config.Controller{SkipNameValidation: new(true)}
	}
	options.HealthProbeBindAddress, options.MapperProvider = listen.Health, o.Mapper
	options.Metrics = server.Options{BindAddress: "0"} // its connections have no bound; see metricsServer
}

// metricsServer serves metrics in every operator, with a self-signed certificate.
type metricsServer struct {
	address  string
	gatherer prometheus.Gatherer
	settings func(*tls.Config)
	guard    func(http.Handler) http.Handler
}

// Start implements manager.Runnable.
func (s metricsServer) Start(ctx context.Context) error {
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("metrics address: %w", err)
	}
	secure, err := httpserver.TLS{Hosts: []string{"localhost", "127.0.0.1"}}.Certificate().ListenerWith(l, s.settings)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return httpserver.Serve(ctx, secure, s.guard(httpserver.MetricsHandler(s.gatherer)))
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (metricsServer) NeedLeaderElection() bool { return false }

// serveMetrics has the manager serve the metrics, if there is an address for them: to every client, or
// while the resource asks for it only to those with a token.
func (o Outside) serveMetrics(mgr manager.Manager, settings func(*tls.Config)) error {
	if o.Listen == nil || o.Listen.Metrics == "0" || o.Gatherer == nil {
		return nil
	}
	own := rest.CopyConfig(mgr.GetConfig())
	own.QPS, own.Burst = httpserver.ReviewQPS, httpserver.ReviewQPS
	reviews, err := kubernetes.NewForConfig(own)
	if err != nil {
		return err
	}
	guard := func(h http.Handler) http.Handler { return guarded(mgr.GetClient(), reviews, h) }
	return mgr.Add(metricsServer{o.Listen.Metrics, o.Gatherer, settings, guard})
}

// resourceTimeout is how long a request for metrics waits for the cache of the resources.
const resourceTimeout = 2 * time.Second

// guarded returns a handler that asks for a token while the resource that is served has the metrics for
// tokens, or while that is unknown.
func guarded(resources client.Reader, reviews kubernetes.Interface, h http.Handler) http.Handler {
	authorized := httpserver.Authorized(reviews, h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), resourceTimeout)
		defer cancel()
		cr, err := installed.Served(ctx, resources)
		if err == nil && !metricsauth.Asked(cr) {
			h.ServeHTTP(w, r)
			return
		}
		authorized.ServeHTTP(w, r)
	})
}

// register registers a collector of the operator.
func (o Outside) register(c prometheus.Collector) error {
	if o.Metrics == nil {
		return nil
	}
	return o.Metrics.Register(c)
}
