package csi

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/inline"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi/target"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Config configures the driver. New checks it.
type Config struct {
	DriverName string // that of the CSIDriver object and of classes
	Version    string
	// NodeID is the node's name; it is the node ID and the value of the
	// topology key, so it must be a valid label value.
	NodeID string
	// KubeletDir is the kubelet's directory; every target is below it.
	KubeletDir string
	// Pools of the node. The caller opens and closes them; New accepts pools that are not ready.
	Pools *volume.Pools
	// WholeDisk returns the size of the filesystem as the capacity of a new volume,
	// as older drivers did. PVs then show that size.
	WholeDisk bool
	// Adopt is set if this process sees no PVs. A directory of an older driver then
	// gets its record when a call names it.
	Adopt bool
	// Inline says which new ephemeral inline volumes are made. One that exists is published.
	Inline contract.InlineVolumes
	// Unknown is called when a volume without a record is to be published: the agent may not have
	// adopted the volume of a new PV yet. It must not block. nil does nothing.
	Unknown func()
	// Unpublished is called with the name of a volume that was unmounted from a target: a copy of it may
	// wait for that. It must not block. nil does nothing.
	Unpublished func(volume string)
	// Changed is called after a volume of the pool was created, grown or deleted: its available
	// space has changed, and its trash may have grown. It must not block. nil does nothing.
	Changed func(*volume.Pool)
}

// Server implements the CSI services for the pools of one node, for calls of many goroutines.
type Server struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	config  Config
	seconds *prometheus.HistogramVec

	targets *target.Targets
	inline  *inline.Volumes
}

// New returns a driver that does not serve yet. The error names the setting that is wrong.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure the CSI driver: %w", err)
	}
	if c.Unknown == nil {
		c.Unknown = func() {}
	}
	if c.Unpublished == nil {
		c.Unpublished = func(string) {}
	}
	if c.Changed == nil {
		c.Changed = func(*volume.Pool) {}
	}
	return &Server{
		config: c,
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubevirt_hpp_csi_call_duration_seconds",
			Help:    "Duration of CSI calls in seconds, by method and gRPC code.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2, 10},
		}, []string{"method", "code"}),
		targets: target.New(c.KubeletDir, volume.Paths(c.Pools.All())...),
		inline:  &inline.Volumes{Pools: c.Pools, KubeletDir: c.KubeletDir, Changed: c.Changed},
	}, nil
}

// Metrics returns the driver's collector: a histogram of its calls.
func (s *Server) Metrics() prometheus.Collector { return s.seconds }

// Serve serves calls on the socket until the context ends, and then closes the socket. Meanwhile it
// deletes inline volumes whose pods are gone. Calls in flight have a second to end. It returns the
// error of a socket that fails, and nil if the context ends.
func (s *Server) Serve(ctx context.Context, l *kubelet.Socket) error {
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept(ctx)))
	csi.RegisterIdentityServer(g, s)
	csi.RegisterControllerServer(g, s)
	csi.RegisterNodeServer(g, s)
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { s.inline.Collect(ctx) })
	return kubelet.Serve(ctx, l, g)
}

// maxDriverName is the limit of the CSI spec, in bytes.
const maxDriverName = 63

func (c *Config) check() error {
	switch {
	case len(c.DriverName) > maxDriverName || len(validation.IsDNS1123Subdomain(c.DriverName)) > 0:
		return fmt.Errorf("the driver name %q is not like a domain name of at most %d bytes", c.DriverName, maxDriverName)
	case c.Version == "":
		return fmt.Errorf("the version is empty; a CSI driver must state one")
	case c.NodeID == "":
		return fmt.Errorf("the node ID is empty; set the name of the Node")
	case !filepath.IsAbs(c.KubeletDir) || filepath.Clean(c.KubeletDir) != c.KubeletDir || c.KubeletDir == "/":
		return fmt.Errorf("the kubelet directory %q is not an absolute, clean path", c.KubeletDir)
	case c.Pools == nil:
		return fmt.Errorf("there are no pools")
	}
	if why := validation.IsValidLabelValue(c.NodeID); len(why) > 0 {
		return fmt.Errorf("the node ID %q cannot be the value of the topology label %s: %s", c.NodeID, contract.TopologyNode,
			why[0])
	}
	return nil
}

// GetPluginInfo returns the driver's name and version.
func (s *Server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.config.DriverName, VendorVersion: s.config.Version}, nil
}

// GetPluginCapabilities returns three capabilities: the driver has a controller
// service, a volume is accessible from one node only, and a published volume can grow.
func (s *Server) GetPluginCapabilities(context.Context,
	*csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	var all []*csi.PluginCapability
	for _, kind := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		all = append(all, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: kind},
		}})
	}
	all = append(all, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}})
	return &csi.GetPluginCapabilitiesResponse{Capabilities: all}, nil
}

// Probe returns ready even if a pool is not: the kubelet restarts a container whose
// probe fails, and one missing disk must not restart an agent that serves other pools.
func (s *Server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}
