package health

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
)

// scrapeWithin is how long a scrape waits for the pools, all together. It is well
// below the ten seconds that Prometheus waits.
const scrapeWithin = 3 * time.Second

// scrape asks pools for metrics such that a disk that hangs neither stops a scrape
// nor collects goroutines: one asks each pool, and none more until it has returned.
type scrape struct {
	mu   sync.Mutex
	busy map[*volume.Pool]bool
}

// each sends what ask returns for every pool, or silent where a pool does not
// answer in time.
func (s *scrape) each(out chan<- prometheus.Metric, pools []*volume.Pool, ask, silent func(*volume.Pool) []prometheus.Metric) {
	answers := make([]chan []prometheus.Metric, len(pools))
	for i, p := range pools {
		answers[i] = make(chan []prometheus.Metric, 1)
		if !s.begin(p) {
			answers[i] <- silent(p)
			continue
		}
		go func() {
			defer s.end(p)
			answers[i] <- ask(p)
		}()
	}
	late := make(chan struct{})
	timer := time.AfterFunc(scrapeWithin, func() { close(late) })
	defer timer.Stop()
	for i, p := range pools {
		select {
		case <-late: // those that have answered are still heard
		case all := <-answers[i]:
			answers[i] <- all
		}
		select {
		case all := <-answers[i]:
			send(out, all)
		default:
			send(out, silent(p))
		}
	}
}

func send(out chan<- prometheus.Metric, all []prometheus.Metric) {
	for _, m := range all {
		out <- m
	}
}

func (s *scrape) begin(p *volume.Pool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[p] {
		return false
	}
	if s.busy == nil {
		s.busy = map[*volume.Pool]bool{}
	}
	s.busy[p] = true
	return true
}

func (s *scrape) end(p *volume.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, p)
}
