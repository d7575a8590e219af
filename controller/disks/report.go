package disks

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/volume/disk"
)

// State is the state of a device.
type State string

// The states of devices.
const (
	Available State = "available" // its PV waits for a claim
	Bound     State = "bound"     // its PV is a claim's
	Released  State = "released"  // its PV was a claim's, and the wipe has not begun
	Wiping    State = "wiping"
	Busy      State = "busy"    // it has to be wiped, and is in use
	Refused   State = "refused" // it carries data, and the ConfigMap does not allow to wipe it
	Unclear   State = "unclear" // it may not be the disk that its PV was made for
	Error     State = "error"
	Gone      State = "gone" // the PV exists and its device does not
)

// States are all states.
var States = []State{Available, Bound, Released, Wiping, Busy, Refused, Unclear, Error, Gone}

// Report describes one device of the node.
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
	// Retry is when the device is tried again, the zero time if it is not.
	Retry time.Time `json:"retry,omitzero"`
	// Confirm is the annotation by which an administrator confirms that the device is the PV's; ""
	// if that is clear.
	Confirm string `json:"confirm,omitempty"`
	// Owner is the UID of the Node that owns the PV, as PVs of older versions are owned; "" if none
	// does. Kubernetes deletes such a PV with the Node object.
	Owner string `json:"owner,omitempty"`
	// Wiped and Verified are the progress of the wipe in bytes, each of WipeBytes.
	Wiped     int64 `json:"wiped,omitempty"`
	Verified  int64 `json:"verified,omitempty"`
	WipeBytes int64 `json:"wipeBytes,omitempty"`
}

// Path is the URL path of the reports, for inspect.
const Path = "/devices"

// FailureHeader is the response header with the reason why the last pass changed nothing, such as
// an invalid ConfigMap. Without it the reports are those of the last pass.
const FailureHeader = "Hostpath-Provisioner-Failed-Pass"

// Reports returns the devices that the last pass found, with the present progress of wipes, sorted
// by device.
func (c *Controller) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.reports)
	for i := range all {
		r := &all[i]
		if j := c.jobs[r.number]; j != nil {
			r.State, r.Why = j.state, j.why
			r.Wiped, r.Verified, r.WipeBytes = j.progress.Wiped, j.progress.Verified, j.progress.Total
			if !j.running && j.why != "" {
				r.Retry = j.retry.UTC().Truncate(time.Second)
			}
		}
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Device, b.Device) })
	return all
}

// Handler serves the reports as JSON at Path. It passes other requests to next.
func (c *Controller) Handler(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		c.mu.Lock()
		if c.failure != nil {
			w.Header().Set(FailureHeader, strings.ReplaceAll(c.failure.Error(), "\n", "; ")) // a header is one line
		}
		c.mu.Unlock()
		_ = json.NewEncoder(w).Encode(append([]Report{}, c.Reports()...)) // a client that left
	})
	return mux
}
