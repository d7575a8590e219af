package claims

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience()
		for range 2 {
			if p.Ends("a") {
				t.Error("at once")
			}
		}
		time.Sleep(silentFor)
		if !p.Ends("a") || p.Ends("b") {
			t.Error("after two minutes only the claim that waited has an event")
		}
	})
}
