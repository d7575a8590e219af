package monitor

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
)

// Scrapes that come at the same time, as two Prometheus servers make them, get the
// same answer. A pool is asked once, and one that does not answer is waited for once.
func TestScrapesShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, hung := new(volume.Pool), new(volume.Pool)
		thawed := make(chan struct{})
		asked := map[*volume.Pool]*atomic.Int64{slow: {}, hung: {}}
		ask := func(p *volume.Pool) []prometheus.Metric {
			asked[p].Add(1)
			if p == hung {
				<-thawed
			}
			time.Sleep(time.Second)
			return notReady(&volume.Pool{})[:1]
		}
		silent := func(*volume.Pool) []prometheus.Metric { return nil }
		var s scrape
		got := func(want int, took time.Duration) {
			begin, out := time.Now(), make(chan prometheus.Metric, 4)
			s.each(out, []*volume.Pool{hung, slow}, ask, silent)
			if len(out) != want || time.Since(begin) != took {
				t.Errorf("%d metrics after %v, want %d after %v", len(out), time.Since(begin), want, took)
			}
		}
		var both sync.WaitGroup
		both.Go(func() { got(1, scrapeWithin) })
		both.Go(func() { got(1, scrapeWithin) })
		both.Wait()
		if asked[slow].Load() != 1 || asked[hung].Load() != 1 {
			t.Errorf("asked the slow pool %d times and the hung one %d times, want once each", asked[slow].Load(), asked[hung].Load())
		}
		got(1, time.Second) // the hung one had its time
		close(thawed)
		time.Sleep(2 * time.Second)
		got(2, time.Second)
		if asked[hung].Load() != 2 {
			t.Errorf("asked the hung pool %d times, want once more after it answered", asked[hung].Load())
		}
	})
}
