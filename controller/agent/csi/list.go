package csi

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/volume"
)

// tokenPrefix begins the token of the next page; the last name of this page ends it. Volumes that
// are created or deleted between two pages thus neither shift the others nor make a token invalid.
const tokenPrefix = "after:"

// ListVolumes returns the volumes of all pools, sorted by name. It omits ephemeral
// inline volumes, which have no PV, and pools that are not offered. A pool that is not
// ready is an error, because its volumes would seem to be gone.
func (s *Server) ListVolumes(_ context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	after, err := afterToken(req.GetStartingToken())
	if err != nil {
		return nil, err
	}
	if req.GetMaxEntries() < 0 {
		return nil, invalid("max entries: %d is negative", req.GetMaxEntries())
	}
	all, err := s.list(after)
	if err != nil {
		return nil, err
	}
	res := &csi.ListVolumesResponse{Entries: all}
	if n := int(req.GetMaxEntries()); n > 0 && n < len(all) {
		res.Entries, res.NextToken = all[:n], tokenPrefix+all[n-1].Volume.VolumeId
	}
	return res, nil
}

func afterToken(token string) (after string, err error) {
	if token == "" {
		return "", nil
	}
	after, ours := strings.CutPrefix(token, tokenPrefix)
	if !ours || volume.CheckName(after) != nil {
		return "", status.Errorf(codes.Aborted, "starting token: %q was not returned by this driver; list from the start",
			token)
	}
	return after, nil
}

func (s *Server) list(after string) ([]*csi.ListVolumesResponse_Entry, error) {
	var all []*csi.ListVolumesResponse_Entry
	for _, p := range s.config.Pools.All() {
		if p.NotOffered() != "" {
			continue
		}
		volumes, err := p.List()
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			if v.Name > after && !v.Ephemeral {
				all = append(all, &csi.ListVolumesResponse_Entry{
					Volume: s.volume(p, v), Status: &csi.ListVolumesResponse_VolumeStatus{},
				})
			}
		}
	}
	slices.SortFunc(all, func(a, b *csi.ListVolumesResponse_Entry) int {
		return cmp.Compare(a.Volume.VolumeId, b.Volume.VolumeId)
	})
	return all, nil
}
