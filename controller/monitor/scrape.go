package monitor

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubevirt.io/hostpath-provisioner/volume"
)

// scrapeWithin is how long a scrape waits for a pool's answer. It is well below
// the ten seconds that Prometheus waits.
const scrapeWithin = 3 * time.Second

// scrape asks pools for metrics such that a disk that hangs neither stops a scrape
// nor collects goroutines: one goroutine asks each pool, and scrapes that come
// meanwhile wait for the same answer. The zero value is ready.
type scrape struct {
	mu    sync.Mutex
	asked map[*volume.Pool]*question // those without an answer; guarded by mu
}

// question is what one pool is asked for one scrape or several.
type question struct {
	began  time.Time
	done   chan struct{} // closed when there is an answer
	answer []prometheus.Metric
}

// each sends what ask returns for every pool, or silent if a pool does not
// answer in time. The pools are asked at the same time.
func (s *scrape) each(out chan<- prometheus.Metric, pools []*volume.Pool, ask, silent func(*volume.Pool) []prometheus.Metric) {
	questions := make([]*question, len(pools))
	for i, p := range pools {
		questions[i] = s.ask(p, ask)
	}
	for i, p := range pools {
		all, ok := questions[i].wait()
		if !ok {
			all = silent(p)
		}
		for _, m := range all {
			out <- m
		}
	}
}

// ask returns the question that the pool has not answered yet, or asks one.
func (s *scrape) ask(p *volume.Pool, ask func(*volume.Pool) []prometheus.Metric) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.asked[p]; q != nil {
		return q
	}
	if s.asked == nil {
		s.asked = map[*volume.Pool]*question{}
	}
	q := &question{began: time.Now(), done: make(chan struct{})}
	s.asked[p] = q
	go func() {
		q.answer = ask(p)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asked, p)
		close(q.done)
	}()
	return q
}

// wait returns the answer. ok is false if there is none scrapeWithin after the
// question.
func (q *question) wait() (answer []prometheus.Metric, ok bool) {
	timer := time.NewTimer(time.Until(q.began.Add(scrapeWithin)))
	defer timer.Stop()
	select {
	case <-q.done:
		return q.answer, true
	case <-timer.C:
	}
	select {
	case <-q.done: // both were ready
		return q.answer, true
	default:
		return nil, false
	}
}
