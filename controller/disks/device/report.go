package device

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	disk "kubevirt.io/hostpath-provisioner/volume/device"
)

// State is what the controller does with a device.
type State string

// The states of devices.
const (
	Available State = "available" // its PV waits for a claim
	Bound     State = "bound"     // its PV is a claim's
	Released  State = "released"  // its PV was a claim's, and the wipe has not begun
	Wiping    State = "wiping"
	Busy      State = "busy"    // it has to be wiped, and something uses it
	Refused   State = "refused" // it carries something, and nothing allows to wipe it
	Unclear   State = "unclear" // it may not be the disk that its PV was made for
	Error     State = "error"
	Gone      State = "gone" // a PV is there without its device
)

// States are all of them.
var States = []State{Available, Bound, Released, Wiping, Busy, Refused, Unclear, Error, Gone}

// Report is what is known of one device of the node.
type Report struct {
	Device string `json:"device"`
	// Paths are further paths that lead to the same device.
	Paths []string `json:"paths,omitempty"`
	ID    string   `json:"id,omitempty"`
	Bytes int64    `json:"bytes"`
	State State    `json:"state"`
	Why   string   `json:"why,omitempty"`
	PV    string   `json:"pv,omitempty"`

	number disk.Number // of the device; zero for the state Gone
	// Retry is when the device is tried again, the zero time if that is not set.
	Retry time.Time `json:"retry,omitzero"`
	// Confirm is the annotation with which an administrator confirms that the device is the PV's; "" if that is clear.
	Confirm string `json:"confirm,omitempty"`
	// Wiped and Verified are how far the wipe is, each of WipeBytes.
	Wiped     int64 `json:"wiped,omitempty"`
	Verified  int64 `json:"verified,omitempty"`
	WipeBytes int64 `json:"wipeBytes,omitempty"`
}

// Path is where the agent serves the reports, for inspect.
const Path = "/devices"

// FailureHeader is the header of that answer with the reason why the last pass changed nothing, such as an invalid ConfigMap.
// Without it the reports are those of the last pass.
const FailureHeader = "Hostpath-Provisioner-Failed-Pass"

// noteFailure keeps the error of a pass, nil for one that succeeded.
func (c *Controller) noteFailure(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = ""
	if err != nil {
		c.failure = strings.ReplaceAll(err.Error(), "\n", "; ") // a header is one line
	}
}

func (c *Controller) lastFailure() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Reports returns what the last pass found, and how far wipes are now, sorted by device.
func (c *Controller) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.reports)
	for i, r := range all {
		if job := c.jobs[r.number]; job != nil {
			job.describe(&all[i])
		}
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Device, b.Device) })
	return all
}

// Handler serves the reports as JSON at Path, and everything else by next.
func (c *Controller) Handler(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if failure := c.lastFailure(); failure != "" {
			w.Header().Set(FailureHeader, failure)
		}
		_ = json.NewEncoder(w).Encode(append([]Report{}, c.Reports()...)) // a client that left
	})
	return mux
}
