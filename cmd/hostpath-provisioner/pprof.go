package main

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/httpserver"
)

// pprofOptions are the flags of the profiles, which are off unless asked for:
// whoever reads them sees what the process holds in memory.
type pprofOptions struct{ address string }

func (p *pprofOptions) register(f *pflag.FlagSet) {
	f.StringVar(&p.address, "pprof-address", "",
		"address of /debug/pprof/, for go tool pprof; one without a host, such as :6060, is the node's or pod's loopback only; an empty one turns it off")
}

func (p *pprofOptions) check() error {
	if p.address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(p.address)
	if err != nil || port == "" {
		return fmt.Errorf("--pprof-address %q is not an address such as :6060", p.address)
	}
	p.address = net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
	return nil
}

// listen opens the address and returns what serves it; nothing where there is
// none.
func (p *pprofOptions) listen() ([]func(context.Context) error, error) {
	if p.address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("--pprof-address %s: %w", p.address, err)
	}
	handler := httpserver.ProfileHandler()
	return []func(context.Context) error{func(ctx context.Context) error { return httpserver.Serve(ctx, l, handler) }}, nil
}
