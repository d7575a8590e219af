package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		sleep.Wake(wake)
		sleep.Wake(wake) // does not block
		begin := time.Now()
		if !sleep.OrWoken(t.Context(), time.Minute, wake) || time.Since(begin) != 0 {
			t.Error("OrWoken did not return at once after Wake")
		}
		if !sleep.OrWoken(t.Context(), time.Minute, wake) || time.Since(begin) != time.Minute {
			t.Error("two calls of Wake ended two sleeps")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if sleep.For(ctx, time.Hour) {
			t.Error("For returned true after its context ended")
		}
	})
}
