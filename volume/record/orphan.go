package record

import "time"

// Orphan is what was last noted of a volume whose PV is gone. The zero value
// is a volume that is none.
type Orphan struct {
	// Since is when Why was first noted, to the second.
	Since time.Time `json:"since"`
	// Why describes what is gone, and what still exists.
	Why string `json:"why"`
	// WatchedSeconds is how long agents have run since then, in all, by a clock
	// that no user can set. It lags behind by some minutes.
	WatchedSeconds int64 `json:"watchedSeconds,omitempty"`
	// Unseen: the PV was not seen between the last opening of the pool and Since, so that
	// the recorded reclaim policy may not be its last one.
	Unseen bool `json:"unseen,omitempty"`
}

// Watched is WatchedSeconds as a duration.
func (o Orphan) Watched() time.Duration { return time.Duration(o.WatchedSeconds) * time.Second }
