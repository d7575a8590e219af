package csi

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// NodeGetVolumeStats returns bytes and inodes of a published volume.
//
// They are those of the filesystem the volume is on. Where a hard limit is set
// on the directory, the filesystem answers for the directory alone, so the
// same question will give each volume's own numbers.
func (s *Server) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	name, path := req.GetVolumeId(), req.GetVolumePath()
	if path == "" {
		return nil, invalid("volume path: it is empty")
	}
	if _, _, err := s.find(name, nil); err != nil {
		return nil, err
	}
	st, err := s.statfs(name, path)
	if errors.Is(err, mount.ErrTarget) || errors.Is(err, mount.ErrParent) || errors.Is(err, unix.ENOENT) {
		return nil, status.Errorf(codes.NotFound, "volume %q is not published at %q: %v", name, path, err)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage(&st)}, nil
}

// statfs asks at the path, if the volume is mounted there.
func (s *Server) statfs(name, path string) (st unix.Statfs_t, err error) {
	target, err := mount.OpenTarget(s.config.KubeletDir, path)
	if err != nil {
		return st, err
	}
	defer target.Close()
	defer s.targets.lock(path)()
	at, err := target.Look()
	if err != nil {
		return st, err
	}
	if !at.Mounted || !shows(at.Info, name) {
		return st, unix.ENOENT
	}
	return target.Statfs()
}

func usage(st *unix.Statfs_t) []*csi.VolumeUsage {
	size := st.Frsize
	all := []*csi.VolumeUsage{{
		Unit:  csi.VolumeUsage_BYTES,
		Total: int64(st.Blocks) * size, Available: int64(st.Bavail) * size, Used: int64(st.Blocks-st.Bfree) * size,
	}}
	if st.Files == 0 {
		return all // a filesystem that makes inodes as it needs them, such as btrfs
	}
	return append(all, &csi.VolumeUsage{
		Unit:  csi.VolumeUsage_INODES,
		Total: int64(st.Files), Available: int64(st.Ffree), Used: int64(st.Files - st.Ffree),
	})
}
