package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
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

// publication is a request to publish that was checked.
type publication struct {
	name   string
	pool   *volume.Pool // nil until it is located, where no attribute names it
	target *mount.Target
	pv     string // that the target is for; "" where it does not say
	flags  mount.Flags
	alone  bool         // no other target may show the volume
	make   *volume.Spec // of an ephemeral volume; nil for one that is there
}

// NodePublishVolume mounts the volume's directory at the target. It does
// nothing where it is mounted there with the same flags.
func (s *Server) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	p, err := s.publication(req)
	if err != nil {
		return nil, err
	}
	defer p.target.Close()
	unlock, err := s.targets.lock(p.target.Path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if p.make != nil {
		err = s.publishEphemeral(p)
	} else if err = s.locate(p, req.GetVolumeContext()); err == nil {
		err = p.mount()
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// publication checks a request. It opens the target's directory, which the
// caller closes, and changes nothing.
func (s *Server) publication(req *csi.NodePublishVolumeRequest) (*publication, error) {
	p := &publication{name: req.GetVolumeId(), alone: singleWriter(req.GetVolumeCapability())}
	var pod string
	pod, p.pv = parseTarget(s.config.KubeletDir, req.GetTargetPath())
	if err := volume.CheckName(p.name); err != nil {
		return nil, err
	}
	if req.GetTargetPath() == "" {
		return nil, invalid("target path: it is empty")
	}
	var err error
	if p.flags, err = checkCapability(req.GetVolumeCapability(), req.GetReadonly()); err != nil {
		return nil, err
	}
	attributes := req.GetVolumeContext()
	if ephemeral(attributes) {
		spec, pool, err := ephemeralSpec(p.name, attributes)
		if err != nil {
			return nil, err
		}
		// The collector looks for the pod's directory by this UID.
		spec.Owner.UID = cmp.Or(pod, spec.Owner.UID)
		p.make = &spec
		p.pool, err = s.ephemeralPool(pool)
		if err != nil {
			return nil, err
		}
	} else if name := attributes[class.StoragePool]; name != "" {
		if p.pool, err = s.pool(name); err != nil {
			return nil, err
		}
	}
	p.target, err = mount.OpenTarget(s.config.KubeletDir, req.GetTargetPath())
	return p, err
}

// locate finds the pool of a volume that is there: the one its PV names, else
// the one that has its record.
func (s *Server) locate(p *publication, attributes map[string]string) error {
	pool, _, err := s.find(p.name, attributes)
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

// mount publishes a volume that is there. The volume is pinned meanwhile, so
// that it cannot be deleted between the look and the mount.
func (p *publication) mount() error {
	var found volume.Volume
	err := p.pool.Pin(p.name, func(pinned volume.Pinned) error {
		found = pinned.Volume
		if pinned.Ephemeral != (p.make != nil) {
			return fmt.Errorf("%w: recorded as ephemeral %v, published as ephemeral %v", errKind, pinned.Ephemeral, p.make != nil)
		}
		if err := p.checkPV(pinned.Volume); err != nil {
			return err
		}
		if err := p.checkAlone(pinned.MountedAt); err != nil {
			return err
		}
		return p.target.Bind(pinned.Dir, p.flags)
	})
	if err != nil || found.PV == "" || found.State != volume.Ready {
		return err
	}
	// From now on there may be data in it, so an empty directory must never
	// take its place.
	_, err = p.pool.Bind(p.name, volume.Binding{PV: found.PV})
	return err
}

func (p *publication) checkAlone(points []string) error {
	if !p.alone {
		return nil
	}
	here, err := p.target.Point()
	if err != nil {
		return err
	}
	foreign := func(point string) bool { return point != here && (p.pv == "" || !samePodSubpath(here, point)) }
	if i := slices.IndexFunc(points, foreign); i >= 0 {
		return fmt.Errorf("%w: it is for a single writer, and mounted at %s", volume.ErrInUse, points[i])
	}
	return nil
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
	if err := s.unmount(name, req.GetTargetPath()); err != nil {
		return nil, fmt.Errorf("unpublish volume %q: %w", name, err)
	}
	if err := s.dropEphemeral(name, req.GetTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *Server) unmount(name, path string) error {
	target, err := mount.OpenTarget(s.config.KubeletDir, path)
	if errors.Is(err, mount.ErrParent) {
		return nil // nothing can be mounted where no directory is
	}
	if err != nil {
		return err
	}
	defer target.Close()
	unlock, err := s.targets.lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	return target.Unbind(func(i mount.Info) bool { return shows(i, name) })
}

// shows reports whether the mount is of a volume of that name. It is told by
// what is mounted, not by the record: a volume whose disk or whose record is
// gone, or that an older driver mounted, must come off all the same.
func shows(i mount.Info, name string) bool { return path.Base(i.Root) == name }
