package csi_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"kubevirt.io/hostpath-provisioner/volume"
)

// TestDiskHangs: calls about a pool whose disk does not answer are refused, soon
// and then at once; those about the other pool are not delayed, and no pod of the
// broken one is kept from ending.
func TestDiskHangs(t *testing.T) {
	const patience = time.Second
	var frozen atomic.Bool
	thawed := make(chan struct{})
	d := newDriverOf(t, func(c *volume.Config) {
		if c.Patience = patience; c.Name == "fast" {
			c.Step = func(string) {
				if frozen.Load() {
					<-thawed
				}
			}
		}
	})
	in := func(pool string) func(*proto.CreateVolumeRequest) {
		return func(r *proto.CreateVolumeRequest) { r.Parameters["storagePool"] = pool }
	}
	there := d.create(t, "pvc-there", in("fast"))
	here := d.create(t, "pvc-here", in("legacy"))
	frozen.Store(true)

	takes := func(what string, most time.Duration, call func(context.Context) error) error {
		t.Helper()
		begin := time.Now()
		err := call(t.Context())
		if took := time.Since(begin); took > most {
			t.Errorf("%s took %s", what, took)
		}
		return err
	}
	another := goodCreate()
	another.Name = "pvc-another"
	in("fast")(another)
	create := func(ctx context.Context) error { _, err := d.CreateVolume(ctx, another); return err }
	wants(t, takes("the first call", 2*patience, create), codes.Unavailable, "does not answer")

	for what, call := range map[string]func(context.Context) error{
		"create": create,
		"delete": func(ctx context.Context) error {
			_, err := d.DeleteVolume(ctx, &proto.DeleteVolumeRequest{VolumeId: there.VolumeId})
			return err
		},
		"publish": func(ctx context.Context) error {
			_, err := d.NodePublishVolume(ctx, d.goodPublish(there, "a"))
			return err
		},
		"stats": func(ctx context.Context) error {
			_, err := d.NodeGetVolumeStats(ctx, &proto.NodeGetVolumeStatsRequest{VolumeId: there.VolumeId, VolumePath: d.target("a")})
			return err
		},
	} {
		wants(t, takes(what, patience/2, call), codes.Unavailable, "does not answer")
	}
	for what, call := range map[string]func(context.Context) error{
		"unpublish": func(ctx context.Context) error {
			_, err := d.NodeUnpublishVolume(ctx, &proto.NodeUnpublishVolumeRequest{VolumeId: there.VolumeId, TargetPath: d.target("a")})
			return err
		},
		"capacity": func(ctx context.Context) error {
			r, err := d.GetCapacity(ctx, &proto.GetCapacityRequest{Parameters: map[string]string{"storagePool": "fast"}})
			if r.GetAvailableCapacity() != 0 {
				t.Errorf("%d bytes are offered", r.GetAvailableCapacity())
			}
			return err
		},
		"create in the other pool": func(context.Context) error { d.create(t, "pvc-new", in("legacy")); return nil },
		"delete in the other pool": func(ctx context.Context) error {
			_, err := d.DeleteVolume(ctx, &proto.DeleteVolumeRequest{VolumeId: here.VolumeId})
			return err
		},
	} {
		if err := takes(what, patience/2, call); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	close(thawed)
	for end := time.Now().Add(10 * time.Second); create(t.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(create(t.Context()))
		}
	}
}
