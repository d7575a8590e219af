package cluster

import (
	"net/http"
	"sync"
	"time"
)

// Clock keeps the API server's time, as the header Date of its answers has it (RFC 9110, 6.6.1; whole
// seconds). The zero value knows none yet.
type Clock struct {
	mu     sync.Mutex
	server time.Time
	here   time.Time // when server was read
}

// Wrap returns a transport that reads the header of each answer.
func (c *Clock) Wrap(next http.RoundTripper) http.RoundTripper { return clocked{c, next} }

// Now returns the API server's time; known is false if no answer had one.
func (c *Clock) Now() (now time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Add(time.Since(c.here)), !c.server.IsZero()
}

type clocked struct {
	clock *Clock
	next  http.RoundTripper
}

func (c clocked) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		c.clock.mu.Lock()
		c.clock.server, c.clock.here = at, time.Now()
		c.clock.mu.Unlock()
	}
	return answer, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (c clocked) WrappedRoundTripper() http.RoundTripper { return c.next }

// Now returns the API server's time, or this computer's and why.
func (r Reader) Now() (now time.Time, why string) {
	if r.Clock != nil {
		if now, known := r.Clock.Now(); known {
			return now, ""
		}
	}
	return time.Now(), "the API server's answers have no time"
}
