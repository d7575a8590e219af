package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// errLogin is the reason of an answer 401: the API server does not know the user. It is no lack of a
// permission.
var errLogin = errors.New("the API server does not accept the login (401 Unauthorized), which may have expired: " +
	"log in again")

// Contact notes whether the API server answers. The zero value has sent no request.
type Contact struct {
	mu       sync.Mutex
	answered bool
	problem  error // of the last request that was not answered
}

// Wrap returns a transport that notes each answer.
func (c *Contact) Wrap(next http.RoundTripper) http.RoundTripper { return noted{c, next} }

// Problem returns why nothing at all was read: no request had an answer, the login was refused, or
// the server failed each time. It is nil after one answer, also one that forbids, and before any
// request.
func (c *Contact) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered || c.problem == nil {
		return nil
	}
	return fmt.Errorf("nothing could be read: %w", c.problem)
}

type noted struct {
	contact *Contact
	next    http.RoundTripper
}

func (n noted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	n.contact.mu.Lock()
	defer n.contact.mu.Unlock()
	switch {
	case err != nil:
		n.contact.problem = err
	case answer.StatusCode == http.StatusUnauthorized:
		n.contact.problem = errLogin
	case answer.StatusCode >= http.StatusInternalServerError:
		n.contact.problem = fmt.Errorf("the API server, or a proxy before it, answers %s", answer.Status)
	default:
		n.contact.answered = true
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (n noted) WrappedRoundTripper() http.RoundTripper { return n.next }
