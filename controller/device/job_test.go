package device

import (
	"context"
	"errors"
	"testing"
	"time"

	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// `existing: wipe` is taken back while a disk is wiped by it, or the disk of a PV with a claim is not known any more: the wipe
// ends. Any other change of the ConfigMap lets it go on.
func TestWipeEndsWithItsPermission(t *testing.T) {
	allowed := &spec{configMap: "cm", existing: true}
	for name, row := range map[string]struct {
		now  *spec
		ends bool
	}{
		"refuse":              {&spec{configMap: "cm"}, true},
		"an unknown disk":     {&spec{configMap: "cm", unknown: "pv"}, true},
		"another class":       {&spec{configMap: "cm", existing: true, class: "other"}, false},
		"nothing was changed": {allowed, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(Config{Interval: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			c.jobsContext = ctx
			ended := make(chan error, 1)
			d := disk.Device{Number: disk.Number{Major: 8}}
			c.begin(d, "", allowed, Wiping, func(ctx context.Context, _ func(disk.Progress)) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			})
			c.begin(d, "", row.now, Wiping, nil)
			if !row.ends {
				cancel()
			}
			if err := <-ended; errors.Is(err, errEnded) != row.ends {
				t.Errorf("the wipe ended with %v", err)
			}
			cancel()
			c.running.Wait()
		})
	}
}
