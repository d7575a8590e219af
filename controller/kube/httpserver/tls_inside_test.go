package httpserver

import (
	"testing"
	"testing/synctest"
	"time"
)

// backdated is how long ago a certificate's validity began when it is made, because clocks differ.
const backdated = time.Hour

// A process runs longer than its certificate lasts.
func TestSelfSignedIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &selfSigned{}
		first, err := s.certificate()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(selfSignedFor - backdated - renewBefore - time.Second)
		if same, err := s.certificate(); err != nil || same != first {
			t.Errorf("renewed too early: %v", err)
		}
		time.Sleep(2 * time.Second)
		second, err := s.certificate()
		if err != nil || second == first {
			t.Fatalf("not renewed: %v", err)
		}
		if left := time.Until(second.Leaf.NotAfter); left < selfSignedFor-backdated-time.Minute {
			t.Errorf("the new one lasts %v", left)
		}
	})
}
