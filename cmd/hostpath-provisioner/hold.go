package main

import (
	"context"
	"io"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/poolholder"
)

// holdClaim runs the command hold.
func holdClaim(ctx context.Context, args []string, out io.Writer) error {
	o, err := poolholder.ParseHold(args, out)
	if err != nil {
		return agent.Usagef("hold: %w", err)
	}
	if o == nil {
		return nil
	}
	return poolholder.Hold(ctx, o)
}

// unmountPool runs the command unmount.
func unmountPool(ctx context.Context, args []string, out io.Writer) error {
	o, err := poolholder.ParseUnmount(args, out)
	if err != nil {
		return agent.Usagef("unmount: %w", err)
	}
	if o == nil {
		return nil
	}
	return poolholder.Unmount(ctx, o)
}
