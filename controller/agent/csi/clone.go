package csi

import (
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// checkContentSource refuses a content source that is not a volume.
func checkContentSource(from *csi.VolumeContentSource) error {
	switch {
	case from == nil:
		return nil
	case from.GetVolume() == nil:
		return invalid("volume content source: only a volume is supported; there are no snapshots")
	case from.GetVolume().GetVolumeId() == "":
		return invalid("volume content source: the volume's ID is empty")
	}
	return volume.CheckName(from.GetVolume().GetVolumeId())
}

// contentSource returns what a volume was copied from, nil if it began empty. The provisioner sidecar
// deletes a copy whose answer lacks it.
func contentSource(from *record.Source) *csi.VolumeContentSource {
	if from == nil {
		return nil
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: from.Volume},
	}}
}

// findSource completes the spec of a copy with its source. The source of a copy that exists may have
// grown since, may be the next claim's, or gone: an answer that was lost is given again.
func (s *Server) findSource(req *csi.CreateVolumeRequest, spec *volume.CloneSpec) error {
	id, r := req.GetVolumeContentSource().GetVolume().GetVolumeId(), req.GetCapacityRange()
	if in, made, err := s.config.Pools.Find(spec.Name); err == nil && made.Source != nil && made.Source.Volume == id {
		spec.From, spec.Source = in, made.Source
		if r.GetRequiredBytes() == 0 && (r.GetLimitBytes() == 0 || made.Bytes <= r.GetLimitBytes()) {
			spec.Bytes = made.Bytes
		}
		return nil
	}
	from, v, err := s.config.Pools.Find(id)
	if errors.Is(err, volume.ErrNotFound) {
		return s.noSource(id, req)
	}
	if err != nil {
		return err
	}
	source := record.SourceOf(from.ID(), v.Record)
	spec.From, spec.Source = from, &source
	if r.GetRequiredBytes() == 0 && v.Bytes > 0 { // the source's size is enough
		spec.Bytes = v.Bytes
	}
	if limit := r.GetLimitBytes(); spec.Bytes < v.Bytes || limit > 0 && spec.Bytes > limit {
		return status.Errorf(codes.OutOfRange, "capacity range: %d to %d bytes, and the source %q has %d; a copy cannot be smaller",
			r.GetRequiredBytes(), limit, id, v.Bytes)
	}
	return nil
}

// noSource is the error of a source that this node does not have. A caller that knows of nodes may ask
// the next one: with this code the sidecar returns the claim to the scheduler.
func (s *Server) noSource(id string, req *csi.CreateVolumeRequest) error {
	if req.GetAccessibilityRequirements() == nil {
		return status.Errorf(codes.NotFound, "volume content source: there is no volume %q", id)
	}
	return status.Errorf(codes.ResourceExhausted,
		"volume content source: node %s has no volume %q; a copy is made on the node that has its source", s.config.NodeID, id)
}
