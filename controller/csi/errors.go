package csi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubevirt.io/hostpath-provisioner/controller/csi/target"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

// codeOf maps an error to the code that the spec has for it. A check that
// knows its code says so with status.Errorf.
func codeOf(method string, err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	for _, row := range []struct {
		is   error
		code codes.Code
	}{
		{volume.ErrInvalid, codes.InvalidArgument},
		{mount.ErrTarget, codes.InvalidArgument},
		{volume.ErrNotReady, codes.Unavailable},
		{volume.ErrNotFound, codes.NotFound},
		{volume.ErrNoSpace, noSpace(method, err)},
		// What the provisioner sidecar gives back to the scheduler.
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

// conflict is the code where something else has the name. Only CreateVolume may
// say that a volume exists; elsewhere a person has to act first.
func conflict(method string) codes.Code {
	if method == "CreateVolume" {
		return codes.AlreadyExists
	}
	return codes.FailedPrecondition
}

// noSpace is the code where a pool cannot promise that much. Of a volume that
// cannot grow so far the spec says it otherwise than of a new one.
func noSpace(method string, err error) codes.Code {
	var space *volume.SpaceError
	if method == "ControllerExpandVolume" && errors.As(err, &space) {
		return codes.OutOfRange
	}
	return codes.ResourceExhausted
}

// text is what the caller reads: the words of a status without its code.
func text(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
