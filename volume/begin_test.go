package volume

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/bounded"
	"kubevirt.io/hostpath-provisioner/volume/pooldir"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// A call that reads until its caller has left begins no change: the caller has an error by which
// nothing was done.
func TestNoChangeBeginsWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		p, err := New(Config{Path: t.TempDir(), Step: func(name string) { steps = append(steps, name) }})
		if err != nil {
			t.Fatal(err)
		}
		patience := time.Second
		done := make(chan error, 1)
		err = bounded.NewCalls("the disk", patience).Do("change", func(c *bounded.Call) error {
			time.Sleep(2 * patience)
			err := p.putFirst(&call{Call: c, Dir: &pooldir.Dir{Records: -1}}, "change.record", record.Record{Name: "v"})
			done <- err
			return err
		})
		if !errors.Is(err, ErrNotReady) {
			t.Errorf("the caller got %v", err)
		}
		if err := <-done; err == nil || len(steps) > 0 {
			t.Errorf("began %q, %v", steps, err)
		}
	})
}
