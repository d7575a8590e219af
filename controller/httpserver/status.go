package httpserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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
}

func run(checks []Check) report {
	r := report{Ready: true, Checks: make([]result, 0, len(checks))}
	for _, c := range checks {
		one := result{Name: c.Name, Ready: true}
		if err := c.Err(); err != nil {
			one.Ready, one.Reason = false, err.Error()
			r.Ready = false
		}
		r.Checks = append(r.Checks, one)
	}
	return r
}

func (r report) writeText(w io.Writer) {
	for _, c := range r.Checks {
		if c.Ready {
			fmt.Fprintf(w, "[+] %s ok\n", c.Name)
		} else {
			fmt.Fprintf(w, "[-] %s: %s\n", c.Name, c.Reason)
		}
	}
}

// readyz answers the probe of the kubelet, which reads the status code.
func readyz(w http.ResponseWriter, checks []Check) {
	r := run(checks)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !r.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	r.writeText(w)
}

// status answers people and scripts, which read the body. Its code is 200 also if a check fails: of
// another code kubectl get --raw prints the code alone. The client's Accept header does not decide
// the format, because kubectl accepts JSON for every path.
func status(w http.ResponseWriter, r *http.Request, checks []Check) {
	switch format := r.URL.Query().Get("format"); format {
	case "", "text":
		now := run(checks)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if now.Ready {
			fmt.Fprintln(w, "ready")
		} else {
			fmt.Fprintln(w, "not ready")
		}
		now.writeText(w)
	case "json":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(run(checks)) // fails only if the client is gone
	default:
		http.Error(w, fmt.Sprintf("format %q is neither text nor json", format), http.StatusBadRequest)
	}
}
