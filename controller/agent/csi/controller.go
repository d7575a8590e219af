package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/target"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
)

// ControllerGetCapabilities lists what the controller service does.
func (s *Server) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	var all []*csi.ControllerServiceCapability
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
	} {
		all = append(all, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: kind},
		}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

// CreateVolume creates a volume with the request's name in the pool that the parameters name, empty or
// as a copy of another volume of this node. It returns the existing volume if the request is a
// repeated one. While a copy takes longer than a few seconds the error is Aborted.
func (s *Server) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	pool, spec, err := s.checkCreate(req)
	if err != nil {
		return nil, err
	}
	var v volume.Volume
	if req.GetVolumeContentSource() == nil {
		v, err = s.config.Pools.Create(pool, spec.Spec)
	} else if err = s.findSource(req, &spec); err == nil {
		v, err = s.config.Pools.Clone(pool, spec)
	}
	if err == nil || errors.Is(err, volume.ErrCloning) {
		s.config.Changed(pool)
	}
	if err != nil {
		return nil, err
	}
	res := &csi.CreateVolumeResponse{Volume: s.volume(pool, v)}
	// The size must stay in the bounds of the request, if it has any.
	if s.config.WholeDisk && req.GetCapacityRange().GetLimitBytes() == 0 {
		space, err := pool.Space()
		if err != nil {
			return nil, err
		}
		shown := contract.WholeDisk(space.Total, v.Bytes)
		res.Volume.CapacityBytes = contract.WholeBytes(&shown)
	}
	return res, nil
}

func (s *Server) checkCreate(req *csi.CreateVolumeRequest) (*volume.Pool, volume.CloneSpec, error) {
	var spec volume.CloneSpec
	if err := checkName(req.GetName()); err != nil {
		return nil, spec, err
	}
	if err := checkCapabilities(req.GetVolumeCapabilities()); err != nil {
		return nil, spec, err
	}
	if err := checkContentSource(req.GetVolumeContentSource()); err != nil {
		return nil, spec, err
	}
	p, err := parse(contract.CSIRequest, req.GetParameters())
	if err != nil {
		return nil, spec, err
	}
	if len(req.GetMutableParameters()) > 0 {
		return nil, spec, invalid("mutable parameters: none are offered; name no VolumeAttributesClass")
	}
	pool, err := s.pool(p.Pool)
	if err != nil {
		return nil, spec, err
	}
	spec = volume.NewCloneSpec(p.Spec, p.Fuzzy, p.CopyBytes)
	spec.Name, spec.PV, spec.Owner = req.GetName(), newPV(req.GetName(), req.GetParameters()), ownerOf(req.GetName(),
		req.GetParameters())
	if spec.Bytes, err = bytesOf(req.GetCapacityRange()); err != nil {
		return nil, spec, err
	}
	return pool, spec, s.checkTopology(req.GetAccessibilityRequirements())
}

func (s *Server) volume(pool *volume.Pool, v volume.Volume) *csi.Volume {
	return &csi.Volume{
		VolumeId:           v.Name,
		CapacityBytes:      v.Bytes,
		VolumeContext:      map[string]string{contract.StoragePool: pool.Name()},
		AccessibleTopology: []*csi.Topology{s.topology()},
		ContentSource:      contentSource(v.Source),
	}
}

// DeleteVolume deletes the volume from the pool that has it. It succeeds if no pool
// has the volume and every pool is ready.
func (s *Server) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if _, _, err := s.findOrAdopt(req.GetVolumeId(), nil); err != nil && !errors.Is(err, volume.ErrNotFound) {
		return nil, err
	}
	pool, err := s.config.Pools.Delete(req.GetVolumeId(), nil)
	if err != nil {
		return nil, err
	}
	if pool != nil {
		s.config.Changed(pool)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// GetCapacity returns the available bytes of a pool, also as the maximum size of a
// volume, which the scheduler prefers. They are 0 for a pool that is not ready and
// for another node. They are also 0 if the request names no pool and there is no
// default pool: such a request has no class, and no volume is created without one.
func (s *Server) GetCapacity(_ context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	p, err := parse(contract.CSIRequest, req.GetParameters())
	if err != nil {
		return nil, err
	}
	pool, err := s.pool(p.Pool)
	if err != nil && p.Pool == "" {
		return capacity(0), nil
	}
	if err != nil {
		return nil, err
	}
	remote := len(req.GetAccessibleTopology().GetSegments()) > 0 && !s.here(req.GetAccessibleTopology())
	refused := len(req.GetVolumeCapabilities()) > 0 && checkCapabilities(req.GetVolumeCapabilities()) != nil
	if remote || refused {
		return capacity(0), nil
	}
	space, err := pool.Space()
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		return nil, err
	}
	if err == nil && pool.CheckQuota(p.Spec) != nil {
		return capacity(0), nil
	}
	return capacity(space.Obtainable()), nil
}

func capacity(bytes int64) *csi.GetCapacityResponse {
	return &csi.GetCapacityResponse{AvailableCapacity: bytes, MaximumVolumeSize: wrapperspb.Int64(bytes)}
}

// ControllerGetVolume returns one volume.
func (s *Server) ControllerGetVolume(_ context.Context,
	req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	pool, v, err := s.find(req.GetVolumeId(), nil)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: s.volume(pool, v), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{},
	}, nil
}

// ValidateVolumeCapabilities confirms what CreateVolume would have accepted for the
// volume. Otherwise it returns no error but a message with the reason.
func (s *Server) ValidateVolumeCapabilities(_ context.Context,
	req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := volume.CheckName(req.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume capabilities: none is given")
	}
	pool, _, err := s.find(req.GetVolumeId(), nil)
	if err != nil {
		return nil, err
	}
	if err := checkValidate(pool, req); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: text(err)}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters: req.GetParameters(),
	}}, nil
}

// checkValidate returns why CreateVolume would not have created a volume of the pool
// with these capabilities and parameters.
func checkValidate(pool *volume.Pool, req *csi.ValidateVolumeCapabilitiesRequest) error {
	if err := checkCapabilities(req.GetVolumeCapabilities()); err != nil {
		return err
	}
	p, err := parse(contract.CSIRequest, req.GetParameters())
	if err != nil {
		return err
	}
	if len(req.GetMutableParameters()) > 0 {
		return invalid("mutable parameters: none are offered")
	}
	for _, name := range []string{req.GetVolumeContext()[contract.StoragePool], p.Pool} {
		if name != "" && name != pool.Name() {
			return invalid("%s: the volume is in pool %s, not in %s", contract.StoragePool, pool.Name(), name)
		}
	}
	return nil
}

// ControllerExpandVolume grows a volume, published or not. It does nothing if the volume has that
// size or more. No node expansion is needed: the directory has no filesystem of its own.
func (s *Server) ControllerExpandVolume(_ context.Context,
	req *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	bytes, err := newSize(req)
	if err != nil {
		return nil, err
	}
	pool, v, err := s.findOrAdopt(req.GetVolumeId(), nil)
	if err != nil {
		return nil, err
	}
	switch limit := req.GetCapacityRange().GetLimitBytes(); {
	case v.Ephemeral:
		return nil, fmt.Errorf("%w: an ephemeral inline volume keeps the size that its pod asked for", target.ErrKind)
	case limit > 0 && v.Bytes > limit:
		return nil, status.Errorf(codes.OutOfRange, "capacity range: at most %d bytes allowed, the volume has %d and "+
			"cannot shrink", limit, v.Bytes)
	case bytes >= v.Bytes: // its limit may be behind, so also where it has just that
		if v, err = pool.Expand(v.Name, bytes); err != nil {
			return nil, err
		}
		s.config.Changed(pool)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Bytes}, nil
}

// newSize checks a request to grow, and returns the new size in bytes.
func newSize(req *csi.ControllerExpandVolumeRequest) (int64, error) {
	r := req.GetCapacityRange()
	if r.GetRequiredBytes() == 0 && r.GetLimitBytes() == 0 {
		return 0, invalid("capacity range: none is given; name the new size")
	}
	if c := req.GetVolumeCapability(); c != nil {
		if _, err := checkCapability(c, false); err != nil {
			return 0, err
		}
	}
	return bytesOf(r)
}
