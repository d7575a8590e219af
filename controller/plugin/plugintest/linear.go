package plugintest

import (
	"testing"
	"time"
)

// Linear fails the test if the time of what of returns grows with the square of its count: four times as
// many may take eight times as long. It tries twenty times, for other programs take time, too.
func Linear(t *testing.T, count int, of func(count int) (run func())) {
	t.Helper()
	runFew, runMany := of(count), of(4*count)
	took := func(run func()) time.Duration {
		began := time.Now()
		run()
		return time.Since(began)
	}
	var few, many time.Duration
	for range 20 {
		few, many = took(runFew), took(runMany)
		if many <= 8*few {
			return
		}
	}
	t.Errorf("%d take %s, and %d take %s", count, few, 4*count, many)
}
