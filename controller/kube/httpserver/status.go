package httpserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// report is what the checks return at one time; its JSON is the answer of /status?format=json.
type report struct {
	Ready  bool     `json:"ready"`
	Checks []result `json:"checks"`
}

type result struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why it is not ready
	Note   string `json:"note,omitempty"`   // see Check
}

func run(checks []Check) report {
	r := report{Ready: true, Checks: make([]result, 0, len(checks))}
	for _, c := range checks {
		one := result{Name: c.Name, Ready: true}
		if err := c.Err(); err != nil {
			one.Ready, one.Reason = false, err.Error()
			r.Ready = false
		} else if c.Note != nil {
			one.Note = c.Note()
		}
		r.Checks = append(r.Checks, one)
	}
	return r
}

// shared runs the checks for all clients that wait: checks ask disks, each of which serves a
// bounded number of calls at once, and calls of claims need them.
type shared struct {
	checks []Check

	mu      sync.Mutex
	current *running // nil if no run is in progress; guarded by mu
	next    *running // begins when current ends; nil if no client waits for it; guarded by mu
}

type running struct {
	done   chan struct{} // closed when report is set
	report report
}

// run returns the results of a run of the checks that began after the call.
func (s *shared) run() report {
	s.mu.Lock()
	if s.current == nil {
		s.current = &running{done: make(chan struct{})}
		mine := s.current
		s.mu.Unlock()
		s.finish(mine)
		return mine.report
	}
	if s.next == nil {
		s.next = &running{done: make(chan struct{})}
	}
	theirs := s.next
	s.mu.Unlock()
	<-theirs.done
	return theirs.report
}

// finish runs the checks, and has the next run begin if a client waits for it.
func (s *shared) finish(r *running) {
	r.report = run(s.checks)
	s.mu.Lock()
	s.current, s.next = s.next, nil
	if following := s.current; following != nil {
		go s.finish(following)
	}
	s.mu.Unlock()
	close(r.done)
}

func (r report) writeText(w io.Writer) {
	for _, c := range r.Checks {
		if c.Note != "" {
			fmt.Fprintf(w, "[+] %s ok: %s\n", c.Name, c.Note)
		} else if c.Ready {
			fmt.Fprintf(w, "[+] %s ok\n", c.Name)
		} else {
			fmt.Fprintf(w, "[-] %s: %s\n", c.Name, c.Reason)
		}
	}
}

// readyz answers the probe of the kubelet, which reads the status code.
func readyz(w http.ResponseWriter, r report) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	r.writeText(w)
}

// status answers people and scripts, which read the body. Its code is 200 also if a check fails: of
// another code kubectl get --raw prints the code alone. The client's Accept header does not decide
// the format, because kubectl accepts JSON for every path.
func status(w http.ResponseWriter, r *http.Request, run func() report) {
	switch format := r.URL.Query().Get("format"); format {
	case "", "text":
		now := run()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if now.Ready {
			fmt.Fprintln(w, "ready")
		} else {
			fmt.Fprintln(w, "not ready")
		}
		now.writeText(w)
	case "json":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(run()) // fails only if the client is gone
	default:
		http.Error(w, fmt.Sprintf("format %q is neither text nor json", format), http.StatusBadRequest)
	}
}
