package csi

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/quota"
)

// NodeGetVolumeStats returns the bytes and inodes of a published volume: those that the
// kernel counts for its quota or, if it has none, those of its filesystem.
func (s *Server) NodeGetVolumeStats(_ context.Context,
	req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	name, path := req.GetVolumeId(), req.GetVolumePath()
	if path == "" {
		return nil, invalid("volume path: it is empty")
	}
	pool, _, err := s.find(name, nil)
	if err != nil {
		return nil, err
	}
	st, err := s.targets.Statfs(name, path)
	if errors.Is(err, mount.ErrTarget) || errors.Is(err, mount.ErrParent) || errors.Is(err, unix.ENOENT) {
		return nil, status.Errorf(codes.NotFound, "volume %q is not published at %q: %v", name, path, err)
	}
	if err != nil {
		return nil, err
	}
	all := usage(&st)
	// statfs(2) does not report a quota on btrfs, and reports it only partly on XFS and
	// ext4 before Linux 6.13 and 6.15.
	if u, err := pool.QuotaUsage(name); err == nil {
		all = limited(all, u)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: all}, nil
}

// limited replaces the filesystem's numbers by those of a volume's limits. There
// may be less available than that: nothing is reserved.
func limited(all []*csi.VolumeUsage, u quota.Usage) []*csi.VolumeUsage {
	replace := func(unit csi.VolumeUsage_Unit, used, most int64) {
		for _, on := range all {
			if on.Unit == unit && most > 0 {
				on.Available = max(0, min(on.Available, most-used))
				on.Total, on.Used = most, used
			}
		}
	}
	replace(csi.VolumeUsage_BYTES, u.Bytes, u.Limit.Bytes)
	replace(csi.VolumeUsage_INODES, int64(u.Inodes), int64(u.Limit.Inodes))
	return all
}

func usage(st *unix.Statfs_t) []*csi.VolumeUsage {
	size := st.Frsize
	all := []*csi.VolumeUsage{{
		Unit:  csi.VolumeUsage_BYTES,
		Total: int64(st.Blocks) * size, Available: int64(st.Bavail) * size, Used: int64(st.Blocks-st.Bfree) * size,
	}}
	if st.Files == 0 {
		return all // the filesystem creates inodes on demand, as btrfs does
	}
	return append(all, &csi.VolumeUsage{
		Unit:  csi.VolumeUsage_INODES,
		Total: int64(st.Files), Available: int64(st.Ffree), Used: int64(st.Files - st.Ffree),
	})
}
