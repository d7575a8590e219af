package poolholder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume/mount"
	"kubevirt.io/hostpath-provisioner/volume/poolmount"
)

// stale is the number of intervals without a result after which the filesystem does not respond.
const stale = 5

// holder keeps a filesystem mounted, and has the result of the last check.
type holder struct {
	*Options

	mu      sync.Mutex
	err     error
	checked time.Time // when err was set
}

// Hold mounts the filesystem of the claim and keeps it mounted until the context ends. A failure is
// logged, shown by /readyz, and tried again.
func Hold(ctx context.Context, o *Options) error {
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return fmt.Errorf("--http-address %s: %w", o.Address, err)
	}
	h := &holder{Options: o, err: fmt.Errorf("not mounted at %s yet", o.Path), checked: time.Now()}
	// Serve does not wait for the loop: it may hang with the filesystem.
	go h.run(ctx)
	return httpserver.Serve(ctx, l, httpserver.Handler(nil, []httpserver.Check{{Name: "mount", Err: h.ready}}))
}

func (h *holder) run(ctx context.Context) {
	for {
		h.set(poolmount.Attach(h.Claim, h.Path, h.Owner))
		if !sleep.For(ctx, h.Every) {
			return
		}
	}
}

// set records the result of a check, and logs a change.
func (h *holder) set(err error) {
	h.mu.Lock()
	before := h.err
	h.err, h.checked = err, time.Now()
	h.mu.Unlock()
	switch {
	case err == nil && before != nil:
		klog.InfoS("The filesystem of the claim is mounted", "claim", h.Claim, "path", h.Path)
	case err != nil && (before == nil || before.Error() != err.Error()):
		klog.ErrorS(err, "Cannot mount the filesystem of the claim; trying again", "claim", h.Claim, "path", h.Path)
	}
}

// ready returns nil if the filesystem is mounted.
func (h *holder) ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.checked); since > stale*h.Every {
		return fmt.Errorf("the filesystem of %s does not respond for %s", h.Claim, since.Round(time.Second))
	}
	return h.err
}

// Unmount unmounts the pool's filesystem. It retries until the deadline, but not if another
// filesystem is mounted there.
func Unmount(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.Deadline)
	defer cancel()
	logged := ""
	for {
		err := poolmount.Detach(o.Path, o.Owner)
		if err == nil || errors.Is(err, mount.ErrOther) {
			return err
		}
		if logged != err.Error() {
			logged = err.Error()
			klog.InfoS("Cannot unmount the pool; trying again", "path", o.Path, "err", err)
		}
		if !sleep.For(ctx, o.Every) {
			return fmt.Errorf("not unmounted within %s: %w", o.Deadline, err)
		}
	}
}
