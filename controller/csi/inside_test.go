package csi

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2/ktesting"

	"kubevirt.io/hostpath-provisioner/controller/csi/target"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

func TestCodes(t *testing.T) {
	for _, row := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{volume.ErrInvalid, codes.InvalidArgument},
		{volume.ErrConflict, codes.AlreadyExists},
		{volume.ErrNotFound, codes.NotFound},
		{&volume.SpaceError{}, codes.ResourceExhausted},
		{volume.ErrNoQuotas, codes.ResourceExhausted},
		{volume.ErrNotReady, codes.Unavailable},
		{&volume.HeldError{By: "another"}, codes.Unavailable},
		{volume.ErrInUse, codes.FailedPrecondition},
		{volume.ErrDamaged, codes.Internal},
		{mount.ErrTarget, codes.InvalidArgument},
		{mount.ErrOther, codes.FailedPrecondition},
		{target.ErrKind, codes.FailedPrecondition},
		{context.Canceled, codes.Canceled},
		{status.Error(codes.OutOfRange, ""), codes.OutOfRange},
		{errors.New("other"), codes.Internal},
	} {
		err := row.err
		if err != nil && row.want != codes.OutOfRange {
			err = &volume.Error{Op: "create volume", Name: "v", Err: err}
		}
		if got := codeOf("CreateVolume", err); got != row.want {
			t.Errorf("%v: %v, want %v", err, got, row.want)
		}
	}
	if got := codeOf("DeleteVolume", volume.ErrConflict); got != codes.FailedPrecondition {
		t.Errorf("conflict of another method: %v", got)
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	req := &csi.NodePublishVolumeRequest{VolumeId: "v", Secrets: map[string]string{"password": "hunter2"}}
	got := loggable{req}.String()
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "password") || !strings.Contains(got, `"v"`) {
		t.Error(got)
	}
	if req.Secrets["password"] != "hunter2" {
		t.Error("the request itself was changed")
	}
	if got := (loggable{nil}).String(); got == "" {
		t.Error("nothing is said of nothing")
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	pools, err := volume.NewPools(named(t, "legacy"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{DriverName: "d", Version: "v", NodeID: "n", KubeletDir: "/k", Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	intercept := s.intercept(ctx)
	_, err = intercept(ctx, &csi.ProbeRequest{}, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Identity/Probe"},
		func(context.Context, any) (any, error) {
			var none []int
			return none[len(none)], nil
		})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "out of range") {
		t.Error(err)
	}
}

func named(t *testing.T, name string) *volume.Pool {
	t.Helper()
	p, err := volume.New(volume.Config{Name: name, Path: "/srv/pool"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClaimUID(t *testing.T) {
	const uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	for name, want := range map[string]string{
		"pvc-" + uid: uid, uid: "", "pvc-": "", "pvc-1": "", "data-pvc-" + uid: "", "pvc-" + uid + "0": "", "v": "",
	} {
		if got := claimUID(name); got != want {
			t.Errorf("claimUID(%q) = %q", name, got)
		}
	}
}
