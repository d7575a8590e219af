package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/target"
)

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
