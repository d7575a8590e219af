package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/controller/csi/target"
	"kubevirt.io/hostpath-provisioner/volume"
)

// NodeGetInfo returns the node's ID and its place in the topology.
func (s *Server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.config.NodeID, AccessibleTopology: s.topology()}, nil
}

// NodeGetCapabilities lists what the node service does.
func (s *Server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	var all []*csi.NodeServiceCapability
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		all = append(all, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: kind},
		}})
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: all}, nil
}

// publication is a checked request to publish.
type publication struct {
	volume target.Volume
	pool   *volume.Pool // nil if no attribute names it, until locate
	inline *volume.Spec // of an inline volume; nil for any other
}

// NodePublishVolume mounts the volume's directory at the target. It does
// nothing where it is mounted there with the same flags.
func (s *Server) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	p, err := s.publication(req)
	if err != nil {
		return nil, err
	}
	t, err := s.targets.Open(req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if p.inline != nil {
		// The collector looks for the pod's directory by this UID.
		p.inline.Owner.UID = cmp.Or(t.Pod, p.inline.Owner.UID)
		err = s.inline.Publish(p.pool, *p.inline, func() error { return t.Publish(p.pool, p.volume) })
	} else if err = s.locate(p, req.GetVolumeContext()); err == nil {
		err = t.Publish(p.pool, p.volume)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// publication checks a request.
func (s *Server) publication(req *csi.NodePublishVolumeRequest) (*publication, error) {
	if err := volume.CheckName(req.GetVolumeId()); err != nil {
		return nil, err
	}
	if req.GetTargetPath() == "" {
		return nil, invalid("target path: it is empty")
	}
	flags, err := checkCapability(req.GetVolumeCapability(), req.GetReadonly())
	if err != nil {
		return nil, err
	}
	attributes := req.GetVolumeContext()
	p := &publication{volume: target.Volume{
		Name: req.GetVolumeId(), Flags: flags, Single: singleWriter(req.GetVolumeCapability()), Ephemeral: ephemeral(attributes),
	}}
	if p.volume.Ephemeral {
		spec, pool, err := ephemeralSpec(req.GetVolumeId(), attributes)
		if err != nil {
			return nil, err
		}
		p.inline = &spec
		p.pool, err = s.ephemeralPool(pool)
		return p, err
	}
	if name := attributes[class.StoragePool]; name != "" {
		p.pool, err = s.pool(name)
	}
	return p, err
}

// locate finds the pool of a volume that is there: the one its PV names, else
// the one that has its record.
func (s *Server) locate(p *publication, attributes map[string]string) error {
	pool, _, err := s.find(p.volume.Name, attributes)
	if errors.Is(err, volume.ErrNotFound) {
		s.config.Unknown()
	}
	unfit := errors.Is(err, volume.ErrConflict) || errors.Is(err, volume.ErrInUse) // what stands in the volume's place
	if p.pool != nil && !unfit {
		return nil // which has the last word on the volume
	}
	p.pool = pool
	return err
}

// NodeUnpublishVolume unmounts the target, looks whether that was so, and
// removes the empty directory. What was never published is a success. An
// ephemeral volume is deleted.
func (s *Server) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	name := req.GetVolumeId()
	if err := volume.CheckName(name); err != nil {
		return nil, err
	}
	if req.GetTargetPath() == "" {
		return nil, invalid("target path: it is empty")
	}
	if err := s.targets.Unpublish(name, req.GetTargetPath()); err != nil {
		return nil, fmt.Errorf("unpublish volume %q: %w", name, err)
	}
	_, pv := s.targets.Parse(req.GetTargetPath())
	if err := s.inline.Delete(name, pv); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
