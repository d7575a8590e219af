package operator

import (
	"crypto/tls"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
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
	// Mapper returns the resources of the kinds; nil asks the API server for them.
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Admission receives the handler of reviews that the webhook's address would serve, if Listen is
	// nil. The handler reads the operator's cache. Admission may be nil.
	Admission func(admission.Handler)
}

// manage adds what is outside to the options of a manager.
func (o Outside) manage(options *manager.Options, serve func(*tls.Config)) {
	listen := o.Listen
	if listen == nil {
		listen = &Addresses{Health: "0", Metrics: "0"}
		// The names are labels of metrics, which several operators of one process share.
		options.Controller = config.Controller{SkipNameValidation: new(true)}
	}
	options.HealthProbeBindAddress, options.MapperProvider = listen.Health, o.Mapper
	options.Metrics = server.Options{BindAddress: listen.Metrics, SecureServing: true,
		TLSOpts: []func(*tls.Config){serve}}
}

// register registers a collector of the operator.
func (o Outside) register(c prometheus.Collector) error {
	if o.Metrics == nil {
		return nil
	}
	return o.Metrics.Register(c)
}
