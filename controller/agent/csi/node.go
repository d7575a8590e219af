package csi

import (
	"cmp"
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/target"
	"kubevirt.io/hostpath-provisioner/volume"
)

// NodeGetInfo returns the node's ID and its place in the topology.
func (s *Server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.config.NodeID, AccessibleTopology: s.topology()}, nil
}

// NodeGetCapabilities lists what the node service does.
func (s *Server) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
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

// NodePublishVolume mounts the volume's directory at the target. It does nothing if the directory
// is mounted there with the same flags. It makes an ephemeral inline volume first. A copy of the
// volume that is under way gives way.
func (s *Server) NodePublishVolume(ctx context.Context,
	req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	v, err := checkPublish(req)
	if err != nil {
		return nil, err
	}
	t, err := s.targets.Open(req.GetTargetPath())
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if v.Ephemeral {
		err = s.publishInline(t, v, req.GetVolumeContext())
	} else {
		err = s.publish(ctx, t, v, req.GetVolumeContext())
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func checkPublish(req *csi.NodePublishVolumeRequest) (v target.Volume, err error) {
	if err := volume.CheckName(req.GetVolumeId()); err != nil {
		return v, err
	}
	if req.GetTargetPath() == "" {
		return v, invalid("target path: it is empty")
	}
	flags, err := checkCapability(req.GetVolumeCapability(), req.GetReadonly())
	return target.Volume{
		Name:  req.GetVolumeId(),
		Flags: flags,
		Single: req.GetVolumeCapability().GetAccessMode().GetMode() ==
			csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
		Ephemeral: req.GetVolumeContext()[keyEphemeral] == "true",
	}, err
}

func (s *Server) publish(ctx context.Context, t *target.Target, v target.Volume, attributes map[string]string) error {
	pool, err := s.locate(v.Name, attributes)
	if err != nil {
		return err
	}
	pool.MakeWay(ctx, v.Name)
	return t.Publish(pool, v)
}

func (s *Server) publishInline(t *target.Target, v target.Volume, attributes map[string]string) error {
	spec, name, err := inlineSpec(v.Name, attributes)
	if err != nil {
		return err
	}
	pool, err := s.inlinePool(name, v.Name)
	if err != nil {
		return err
	}
	// The collector looks for the pod's directory by this UID.
	spec.Owner.UID = cmp.Or(t.Pod, spec.Owner.UID)
	may := func() error {
		if err := s.config.Inline.Check(pool.Name(), spec.Bytes); err != nil {
			return status.Errorf(codes.PermissionDenied, "%v", err)
		}
		return nil
	}
	return s.inline.Publish(pool, spec, may, func() error { return t.Publish(pool, v) })
}

// NodeUnpublishVolume unmounts the target, verifies that, and removes the empty directory. It
// succeeds if the volume was never published. It deletes an ephemeral inline volume.
func (s *Server) NodeUnpublishVolume(_ context.Context,
	req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
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
	s.config.Unpublished(name)
	_, pv := s.targets.Parse(req.GetTargetPath())
	if err := s.inline.Delete(name, pv); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
