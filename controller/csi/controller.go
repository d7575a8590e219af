package csi

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// ControllerGetCapabilities lists what the controller service does.
func (s *Server) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	var all []*csi.ControllerServiceCapability
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		all = append(all, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: kind},
		}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

// CreateVolume makes a directory of the request's name in the pool that the
// parameters name, or returns the one that was made for the same request.
func (s *Server) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	pool, spec, err := s.wanted(req)
	if err != nil {
		return nil, err
	}
	v, err := s.config.Pools.Create(pool, spec)
	if err != nil {
		return nil, err
	}
	s.config.Changed(pool)
	res := &csi.CreateVolumeResponse{Volume: s.answer(pool, v)}
	// A request that bounds the size is kept to, whatever the PV shall show.
	if s.config.WholeDisk && req.GetCapacityRange().GetLimitBytes() == 0 {
		space, err := pool.Space()
		if err != nil {
			return nil, err
		}
		shown := class.WholeDisk(space.Total, v.Bytes)
		res.Volume.CapacityBytes = shown.Value()
	}
	return res, nil
}

// wanted checks a request to create, and says what shall be made where.
func (s *Server) wanted(req *csi.CreateVolumeRequest) (*volume.Pool, volume.Spec, error) {
	var spec volume.Spec
	if err := checkName(req.GetName()); err != nil {
		return nil, spec, err
	}
	if err := checkCapabilities(req.GetVolumeCapabilities()); err != nil {
		return nil, spec, err
	}
	if req.GetVolumeContentSource() != nil {
		return nil, spec, invalid("volume content source: it is not offered, new volumes are empty; copy the data in")
	}
	p, err := parse(class.CSIRequest, req.GetParameters())
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
	spec = p.Spec
	spec.Name, spec.PV, spec.Owner = req.GetName(), newPV(req.GetName(), req.GetParameters()), ownerOf(req.GetName(), req.GetParameters())
	if spec.Bytes, err = bytesOf(req.GetCapacityRange()); err != nil {
		return nil, spec, err
	}
	return pool, spec, s.checkTopology(req.GetAccessibilityRequirements())
}

// answer is a volume as the CO sees it.
func (s *Server) answer(pool *volume.Pool, v volume.Volume) *csi.Volume {
	return &csi.Volume{
		VolumeId:           v.Name,
		CapacityBytes:      v.Bytes,
		VolumeContext:      map[string]string{class.StoragePool: pool.Name()},
		AccessibleTopology: []*csi.Topology{s.topology()},
	}
}

// DeleteVolume removes a volume, wherever it is; one that is nowhere is a
// success, if every pool could be asked.
func (s *Server) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if _, _, err := s.find(req.GetVolumeId(), nil); err != nil && !errors.Is(err, volume.ErrNotFound) {
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

// GetCapacity returns what a pool can still promise, as the space there is and
// as the biggest volume: the scheduler heeds the latter where it is given. A
// pool that is not ready can promise nothing, and neither can another node.
// A request that names no pool, where none is the default, is no mistake: it
// comes without a class in hand, and without one no volume would be made.
func (s *Server) GetCapacity(_ context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	p, err := parse(class.CSIRequest, req.GetParameters())
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
	elsewhere := len(req.GetAccessibleTopology().GetSegments()) > 0 && !s.here(req.GetAccessibleTopology())
	refused := len(req.GetVolumeCapabilities()) > 0 && checkCapabilities(req.GetVolumeCapabilities()) != nil
	if elsewhere || refused {
		return capacity(0), nil
	}
	space, err := pool.Space()
	if err != nil && !errors.Is(err, volume.ErrNotReady) {
		return nil, err
	}
	if err == nil && pool.CheckQuota(p.Spec) != nil {
		return capacity(0), nil
	}
	return capacity(space.Available), nil
}

func capacity(bytes int64) *csi.GetCapacityResponse {
	return &csi.GetCapacityResponse{AvailableCapacity: bytes, MaximumVolumeSize: wrapperspb.Int64(bytes)}
}

// ControllerGetVolume returns one volume.
func (s *Server) ControllerGetVolume(_ context.Context, req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	pool, v, err := s.find(req.GetVolumeId(), nil)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: s.answer(pool, v), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{},
	}, nil
}

// ValidateVolumeCapabilities confirms what CreateVolume would have accepted
// for the volume. What it would not have is an answer with words, no error.
func (s *Server) ValidateVolumeCapabilities(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
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
	if err := fits(pool, req); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: text(err)}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}

func fits(pool *volume.Pool, req *csi.ValidateVolumeCapabilitiesRequest) error {
	if err := checkCapabilities(req.GetVolumeCapabilities()); err != nil {
		return err
	}
	p, err := parse(class.CSIRequest, req.GetParameters())
	if err != nil {
		return err
	}
	if len(req.GetMutableParameters()) > 0 {
		return invalid("mutable parameters: none are offered")
	}
	for _, name := range []string{req.GetVolumeContext()[class.StoragePool], p.Pool} {
		if name != "" && name != pool.Name() {
			return invalid("%s: the volume is in pool %s, not in %s", class.StoragePool, pool.Name(), name)
		}
	}
	return nil
}
