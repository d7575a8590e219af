package recovery

import "time"

// Kept is a deleted volume that a pool keeps, as the command trash prints it with -o json.
type Kept struct {
	Pool      string    `json:"pool"` // the path
	PoolUUID  string    `json:"poolUUID"`
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	PV        string    `json:"pv,omitempty"`
	Namespace string    `json:"namespace,omitempty"` // of the former claim
	Claim     string    `json:"claim,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`
	Created   time.Time `json:"created"`
	Deleted   time.Time `json:"deleted,omitzero"`
	// Until is when it may go, if agents of the node run until then.
	Until time.Time `json:"until,omitzero"`
	// NotOffered is why it cannot be undeleted; "" if the record does not rule that out.
	NotOffered string `json:"notOffered,omitempty"`
}
