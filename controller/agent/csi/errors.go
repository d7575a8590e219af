package csi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/target"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// codeOf returns the CSI spec's code for the error. One from status.Errorf has its code already.
func codeOf(method string, err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	for _, row := range []struct {
		is   error
		code codes.Code
	}{
		{volume.ErrCloning, codes.Aborted},
		{volume.ErrYielded, codes.Aborted},
		{volume.ErrInvalid, codes.InvalidArgument},
		{mount.ErrTarget, codes.InvalidArgument},
		{volume.ErrNotReady, codes.Unavailable},
		{volume.ErrNotFound, codes.NotFound},
		{volume.ErrSource, codes.FailedPrecondition},
		{volume.ErrUnshared, codes.FailedPrecondition},
		{volume.ErrNoSpace, noSpace(method, err)},
		// With this code the provisioner sidecar returns the claim to the scheduler.
		{volume.ErrNoQuotas, codes.ResourceExhausted},
		{volume.ErrInUse, codes.FailedPrecondition},
		{volume.ErrMigrating, codes.FailedPrecondition},
		{mount.ErrParent, codes.FailedPrecondition},
		{mount.ErrOther, codes.FailedPrecondition},
		{target.ErrKind, codes.FailedPrecondition},
		{target.ErrPV, codes.FailedPrecondition},
		{volume.ErrConflict, conflict(method)},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled},
	} {
		if errors.Is(err, row.is) {
			return row.code
		}
	}
	return codes.Internal
}

// conflict returns the code of an ErrConflict: another object has the name. Only
// CreateVolume may return AlreadyExists; otherwise an administrator must act first.
func conflict(method string) codes.Code {
	if method == "CreateVolume" {
		return codes.AlreadyExists
	}
	return codes.FailedPrecondition
}

// noSpace returns the code of an ErrNoSpace. The spec has another code for a volume
// that cannot grow than for a new one. While room is made a sidecar tries again, and does not return the
// claim to the scheduler.
func noSpace(method string, err error) codes.Code {
	var space *fault.SpaceError
	if errors.As(err, &space) && space.MakingRoom {
		return codes.Unavailable
	}
	if method == "ControllerExpandVolume" && errors.As(err, &space) {
		return codes.OutOfRange
	}
	return codes.ResourceExhausted
}

// text returns the error's message; a status is without its code.
func text(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
