// Command standin takes the place of two sidecars that the go command cannot build by a release:
// the node-driver-registrar, which registers a driver with the kubelet, and the liveness-probe,
// which calls a driver's Probe. It accepts their flags, and does not measure their cost.
//
//	standin --csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/csi-hostpath/csi.sock
//	standin --csi-address=/csi/csi.sock --health-port=9898
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

var (
	address  = flag.String("csi-address", "/csi/csi.sock", "socket of the driver")
	endpoint = flag.String("kubelet-registration-path", "",
		"that socket as the kubelet sees it; with it this is a registrar")
	plugins = flag.String("plugin-registration-path", "/registration",
		"the kubelet's plugins_registry directory as seen here")
	port    = flag.String("health-port", "", "port of /healthz; with it this is a liveness probe")
	timeout = flag.Duration("probe-timeout", time.Second, "of one call to the driver")
	_       = flag.Int("v", 0, "taken, and not heeded")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// The driver may start later than its sidecars.
	conn, err := grpc.NewClient("unix://"+*address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	driver := csi.NewIdentityClient(conn)
	switch {
	case *endpoint != "" && *port == "":
		return register(ctx, driver)
	case *endpoint == "" && *port != "":
		return serveHealth(ctx, driver)
	}
	return errors.New("give one of --kubelet-registration-path and --health-port")
}

// register serves the kubelet until the context ends, and then removes its socket.
func register(ctx context.Context, driver csi.IdentityClient) error {
	info, err := driver.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil {
		return err
	}
	path := filepath.Join(*plugins, info.Name+"-reg.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // that of one who was killed
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	refused := make(chan error, 1)
	registration.RegisterRegistrationServer(server, &registrar{driver: info.Name, refused: refused})
	go func() {
		select {
		case <-ctx.Done():
		case err := <-refused:
			log.Print(err)
		}
		server.Stop()
	}()
	return server.Serve(l) // closing the listener removes the socket
}

type registrar struct {
	registration.UnimplementedRegistrationServer
	driver  string
	refused chan error
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.driver, Endpoint: *endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus ends the process if the kubelet refused the driver: after a restart the
// kubelet tries again.
func (r *registrar) NotifyRegistrationStatus(_ context.Context,
	s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		r.refused <- fmt.Errorf("the kubelet refused %s: %s", r.driver, s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// serveHealth returns 200 if the driver's Probe reports that it is ready.
func serveHealth(ctx context.Context, driver csi.IdentityClient) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		call, cancel := context.WithTimeout(r.Context(), *timeout)
		defer cancel()
		answer, err := driver.Probe(call, &csi.ProbeRequest{})
		if err == nil && answer.Ready != nil && !answer.Ready.Value {
			err = errors.New("the driver says that it is not ready")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "ok")
	})
	server := &http.Server{Addr: ":" + *port, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
