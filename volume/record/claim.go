package record

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Claim has what the PV and the claim of a volume had beyond the rest of its record, so that both can
// be made again when the cluster has lost them. Programs before it ignore the key, and drop it when
// they rewrite the record. A Claim is never changed, only replaced.
type Claim struct {
	// Of the PV. Provisioner names the kind of PV that it was.
	Provisioner  string   `json:"provisioner,omitempty"`
	Class        string   `json:"class"` // "" for none
	AccessModes  []string `json:"accessModes,omitempty"`
	MountOptions []string `json:"mountOptions,omitempty"`
	FSType       string   `json:"fsType,omitempty"`
	// Of the claim. Request is in bytes, and Created is by the clock of the API server. NamespaceUID is
	// that of the namespace; "" if it is not known.
	Request      int64             `json:"request,omitempty"`
	Created      time.Time         `json:"created,omitzero"`
	NamespaceUID string            `json:"namespaceUID,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	// Omitted are the keys that were too long.
	Omitted []string `json:"omitted,omitempty"`
}

// MaxClaim bounds a Claim in bytes, as it is written: all records are in memory, and any user can
// write long labels.
const MaxClaim = 4 << 10

// Equal reports whether two claims have the same content. nil equals nil alone.
func (c *Claim) Equal(other *Claim) bool {
	if c == nil || other == nil {
		return c == other
	}
	same := c.Provisioner == other.Provisioner && c.Class == other.Class && c.FSType == other.FSType &&
		c.Request == other.Request && c.Created.Equal(other.Created) && c.NamespaceUID == other.NamespaceUID
	return same && slices.Equal(c.AccessModes, other.AccessModes) && slices.Equal(c.MountOptions, other.MountOptions) &&
		maps.Equal(c.Labels, other.Labels) && maps.Equal(c.Annotations, other.Annotations) &&
		slices.Equal(c.Omitted, other.Omitted)
}

// Bounded returns the claim without what makes it longer than MaxClaim, whose keys Omitted then has:
// first annotations, then labels, mount options, and the rest.
func (c Claim) Bounded() *Claim {
	for _, part := range []struct {
		key  string
		drop func()
	}{
		{"annotations", func() { c.Annotations = nil }}, {"labels", func() { c.Labels = nil }},
		{"mountOptions", func() { c.MountOptions = nil }}, {"fsType", func() { c.FSType = "" }},
		{"accessModes", func() { c.AccessModes = nil }}, {"class", func() { c.Class = "" }},
		{"provisioner", func() { c.Provisioner = "" }},
	} {
		if c.size() <= MaxClaim {
			break
		}
		part.drop()
		c.Omitted = append(slices.Clip(c.Omitted), part.key)
	}
	return &c
}

// size returns how many bytes the claim takes in a record.
func (c *Claim) size() int {
	data, err := json.MarshalIndent(c, "  ", "  ")
	if err != nil {
		return MaxClaim + 1
	}
	return len(data)
}
