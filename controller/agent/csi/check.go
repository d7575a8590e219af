package csi

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// maxName is the maximum length of a new volume's name in bytes. The name is the volume
// ID, and the CSI spec limits that.
const maxName = contract.MaxHandle

// defaultBytes is the size of a volume if the request has none.
const defaultBytes = int64(1) << 30

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func checkName(name string) error {
	if len(name) > maxName {
		return invalid("name: it has %d bytes, at most %d are allowed", len(name), maxName)
	}
	return volume.CheckName(name)
}

// bytesOf returns the required size, else the limit, else the default.
func bytesOf(r *csi.CapacityRange) (int64, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	switch {
	case required < 0 || limit < 0:
		return 0, invalid("capacity range: %d to %d bytes; sizes are not negative", required, limit)
	case limit > 0 && required > limit:
		return 0, status.Errorf(codes.OutOfRange, "capacity range: %d bytes required, and at most %d allowed", required,
			limit)
	case required > 0:
		return required, nil
	case limit > 0:
		return limit, nil
	}
	return defaultBytes, nil
}

func checkCapabilities(all []*csi.VolumeCapability) error {
	if len(all) == 0 {
		return invalid("volume capabilities: none is given; ask for a mount volume and an access mode")
	}
	for _, c := range all {
		if _, err := checkCapability(c, false); err != nil {
			return err
		}
	}
	return nil
}

// checkCapability refuses what a directory on one node cannot be, and returns
// the flags of its mount. The filesystem type is whatever the pool has, so
// what is asked for there is not looked at: Kubernetes always names one.
func checkCapability(c *csi.VolumeCapability, readonly bool) (f mount.Flags, err error) {
	switch {
	case c == nil:
		return f, invalid("volume capability: none is given; ask for a mount volume and an access mode")
	case c.GetBlock() != nil:
		return f, invalid("volume capability: block access is not supported; ask for a mount volume")
	case c.GetMount() == nil:
		return f, invalid("volume capability: no access type is given; ask for a mount volume")
	case c.GetMount().GetVolumeMountGroup() != "":
		return f, invalid("volume capability: a mount group is not supported")
	}
	switch mode := c.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		readonly = true
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
	case csi.VolumeCapability_AccessMode_UNKNOWN:
		return f, invalid("volume capability: no access mode is given")
	default:
		return f, invalid("volume capability: access mode %v is not supported: a volume is a directory on one node; "+
			"ask for ReadWriteOnce or ReadWriteOncePod", mode)
	}
	if f, err = mount.ParseFlags(c.GetMount().GetMountFlags(), readonly); err != nil {
		return f, invalid("volume capability: %v", err)
	}
	return f, nil
}

func (s *Server) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{contract.TopologyNode: s.config.NodeID}}
}

// here reports whether the topology is this node's. A topology with other segments is
// not: the driver does not know them.
func (s *Server) here(t *csi.Topology) bool {
	return len(t.GetSegments()) == 1 && t.GetSegments()[contract.TopologyNode] == s.config.NodeID
}

// checkTopology refuses a volume that may not be on this node. The code makes the
// scheduler choose another node; with any other code the claim would stay here.
func (s *Server) checkTopology(r *csi.TopologyRequirement) error {
	allowed := r.GetRequisite()
	if len(allowed) == 0 {
		allowed = r.GetPreferred()
	}
	if len(allowed) == 0 {
		return nil
	}
	for _, t := range allowed {
		if s.here(t) {
			return nil
		}
	}
	return status.Errorf(codes.ResourceExhausted,
		"topology: this is node %s, and the volume must be on another one (%v)", s.config.NodeID, allowed[0].GetSegments())
}
