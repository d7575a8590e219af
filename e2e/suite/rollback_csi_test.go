package suite

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// olderDriver is the part of the CSI driver before this one that its provisioner sidecar calls: a
// volume is a directory of the pool that has its name, and nothing else.
type olderDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	pool, node string
}

// serve serves the driver on the socket until the function that it returns is called.
func (d *olderDriver) serve(s *harness.Scene, socket string) (stop func()) {
	s.Helper()
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		s.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	go func() { _ = server.Serve(l) }() // it returns when it is stopped
	s.Cleanup(server.Stop)
	return server.Stop
}

func (d *olderDriver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{harness.TopologyNode: d.node}}
}

// Probe implements csi.IdentityServer.
func (*olderDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// GetPluginInfo implements csi.IdentityServer.
func (*olderDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: harness.Driver, VendorVersion: "older"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (*olderDriver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	r := &csi.GetPluginCapabilitiesResponse{}
	for _, c := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		r.Capabilities = append(r.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: c}},
		})
	}
	return r, nil
}

// ControllerGetCapabilities implements csi.ControllerServer.
func (*olderDriver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	r := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
	} {
		r.Capabilities = append(r.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}},
		})
	}
	return r, nil
}

// CreateVolume implements csi.ControllerServer. The capacity is that of the whole disk.
func (d *olderDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := os.Mkdir(filepath.Join(d.pool, r.Name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.Name, CapacityBytes: 251 << 30, VolumeContext: r.Parameters, AccessibleTopology: []*csi.Topology{d.topology()},
	}}, nil
}

// DeleteVolume implements csi.ControllerServer.
func (d *olderDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, os.RemoveAll(filepath.Join(d.pool, r.VolumeId))
}

// GetCapacity implements csi.ControllerServer.
func (*olderDriver) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	return &csi.GetCapacityResponse{AvailableCapacity: 100 << 30}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (d *olderDriver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: d.topology()}, nil
}

// The older CSI driver and its provisioner sidecar serve the CSI PVs of the agent again, as they
// are.
func TestRollbackCSI(t *testing.T) {
	// Not at the same time as others: the sidecar deletes whatever PV of the driver names no node.
	s := env.Scene(t)
	node := s.Node("01")
	a := s.Agent(node, local(node))
	kept, deleted := csiBound(s, a), csiBound(s, a)
	s.Write(filepath.Join(a.Pool, harness.PVName(kept)), "data", []byte("precious"))
	for _, claim := range []*corev1.PersistentVolumeClaim{kept, deleted} {
		name := harness.PVName(claim)
		s.Eventually("record bound", func() error { return owned(s, a, name, name, claim, false) })
	}
	a.Stop()

	stopDriver := (&olderDriver{pool: a.Pool, node: node.Name}).serve(s, a.Socket)
	stopSidecar := a.Sidecar()
	s.Delete(deleted)
	s.Gone(harness.PVName(deleted))
	if err := harness.Exists(filepath.Join(a.Pool, harness.PVName(deleted))); err == nil {
		t.Error("the older driver did not delete the directory")
	}
	wantData(s, a, kept)
	if err := s.IsBound(kept); err != nil {
		t.Error(err)
	}
	added := csiBound(s, a)
	stopSidecar()
	stopDriver()
	afterRollback(s, a, local(node), kept, added, 1)
}
