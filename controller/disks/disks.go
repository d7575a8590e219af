package disks

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
)

// Run offers the disks of a node until the context ends.
func Run(ctx context.Context, version string, client kubernetes.Interface, o *Options) error {
	log := klog.Background().WithValues("node", o.Node)
	ctx = klog.NewContext(ctx, log)
	log.Info("Starting", "version", version, "metrics", o.Address,
		"namespace", o.namespace, "defaultConfigMap", o.configMap)
	recorder := events.New(client, o.Node)
	defer recorder.Close()
	c := New(Config{
		Client: client, Events: recorder, Node: o.Node, Namespace: o.namespace, ConfigMap: o.configMap, Interval: o.interval,
	})
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return fmt.Errorf("--metrics-addr %s: %w", o.Address, err)
	}
	registry := prometheus.NewRegistry()
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	registry.MustRegister(collectors.NewGoCollector(), process, c)
	handler := c.Handler(httpserver.Handler(registry,
		[]httpserver.Check{{Name: "devices", Err: c.Ready, Note: c.Missing}}))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- httpserver.Serve(ctx, l, handler)
	}()
	if err := c.Run(ctx); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-time.After(time.Second):
		return nil
	}
}
