package monitor

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
)

// scrapeWithin is how long a scrape waits for a pool. Prometheus waits ten seconds by default.
const scrapeWithin = 3 * time.Second

// scrape reads the metrics of pools in the background, so that a disk that does not respond neither
// blocks a scrape nor accumulates goroutines: each pool has at most one reader, and scrapes during
// its read wait for the same result. The zero value is ready to use.
type scrape struct {
	mu    sync.Mutex
	reads map[*volume.Pool]*reading // unfinished ones; guarded by mu
}

// reading is one read of a pool's metrics, for one or several scrapes.
type reading struct {
	began  time.Time
	done   chan struct{} // closed when result is set
	result []prometheus.Metric
}

// each sends the result of read for every pool, or that of fallback if read does not
// return in time. It reads the pools in parallel.
func (s *scrape) each(out chan<- prometheus.Metric, pools []*volume.Pool, read,
	fallback func(*volume.Pool) []prometheus.Metric) {
	readings := make([]*reading, len(pools))
	for i, p := range pools {
		readings[i] = s.start(p, read)
	}
	for i, p := range pools {
		all, ok := readings[i].wait()
		if !ok {
			all = fallback(p)
		}
		for _, m := range all {
			out <- m
		}
	}
}

// start returns the unfinished reading of the pool, or starts one.
func (s *scrape) start(p *volume.Pool, read func(*volume.Pool) []prometheus.Metric) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reads[p]; r != nil {
		return r
	}
	if s.reads == nil {
		s.reads = map[*volume.Pool]*reading{}
	}
	r := &reading{began: time.Now(), done: make(chan struct{})}
	s.reads[p] = r
	go func() {
		r.result = read(p)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reads, p)
		close(r.done)
	}()
	return r
}

// wait returns the result. ok is false if there is none within scrapeWithin of the start.
func (r *reading) wait() (result []prometheus.Metric, ok bool) {
	timer := time.NewTimer(time.Until(r.began.Add(scrapeWithin)))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.result, true
	case <-timer.C:
	}
	select {
	case <-r.done: // select chose the timer although both were ready
		return r.result, true
	default:
		return nil, false
	}
}
