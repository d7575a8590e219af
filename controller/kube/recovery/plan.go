package recovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Version is that of the JSON of a Plan. It changes if a field gets another meaning or goes.
const Version = 1

// Plan is what becomes of the volumes of one node.
type Plan struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	// Volumes are those of all pools of the agent: every record, and every directory without one.
	Volumes []Volume `json:"volumes"`
	// Pools are the UUIDs of the pools that were read.
	Pools []string `json:"pools"`
	// Unread are the pools that were not read, with the reason: the plan lacks their volumes.
	Unread []string `json:"unread,omitempty"`
}

// Decode reads the JSON of a plan. The error says which program to use if it is of a later version.
func Decode(data []byte) (p Plan, err error) {
	// The version comes first: the fields of another may have other types.
	var of struct {
		Version int `json:"version"`
	}
	if err = json.Unmarshal(data, &of); err == nil && of.Version == Version {
		err = json.Unmarshal(data, &p)
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("the output of recover is no plan: %w", err)
	case of.Version != Version:
		return p, fmt.Errorf("the plan has version %d, and this program reads %d: use the kubectl-hpp of the agent's "+
			"release", of.Version, Version)
	}
	return p, nil
}

// Verdict is what becomes of a volume.
type Verdict string

// The verdicts.
const (
	// Made: recovery writes what is missing of PV and claim.
	Made Verdict = "made"
	// There: PV and claim are Bound to each other.
	There Verdict = "already there"
	// Left: recovery writes nothing, and Why is the reason.
	Left Verdict = "left"
)

// Volume is a volume of a plan.
type Volume struct {
	Pool     string `json:"pool"` // the path
	PoolUUID string `json:"poolUUID"`
	Name     string `json:"name"` // of the directory

	// What the record has. Namespace and Claim are "" if they are not known, as is Cluster.
	PVName    string    `json:"pv,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Claim     string    `json:"claim,omitempty"`
	ClaimUID  string    `json:"claimUID,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`
	Created   time.Time `json:"created,omitzero"`
	// ClaimCreated is by the clock of the API server, Created by that of the node; the zero time if an
	// older agent wrote the record.
	ClaimCreated time.Time `json:"claimCreated,omitzero"`
	// NamespaceUID is that of the claim's namespace; "" if the record does not have it.
	NamespaceUID string `json:"namespaceUID,omitempty"`
	// LostNamespaceUID is what LostNamespace returns.
	LostNamespaceUID string `json:"lostNamespaceUID,omitempty"`
	Cluster          string `json:"cluster,omitempty"`
	Policy           string `json:"reclaimPolicy,omitempty"`
	// PVUID is that of the PV that may delete the volume; "" if it is not known.
	PVUID string `json:"pvUID,omitempty"`
	// Kept is the ID of a deleted volume that the pool keeps; "" for one in place.
	Kept string `json:"kept,omitempty"`

	// Problem is why the agent has no objects for the volume, whatever the API server has; "" if it has
	// them, or if they are there.
	Problem string `json:"problem,omitempty"`
	// Objects bring the volume back. Recovery writes those that are missing.
	Objects *Objects `json:"objects,omitempty"`
	// Notes are what a person should know before the objects are applied.
	Notes []string `json:"notes,omitempty"`

	Finding
}

// Objects are a PV and the claim that it is for.
type Objects struct {
	PV    *corev1.PersistentVolume      `json:"pv"`
	Claim *corev1.PersistentVolumeClaim `json:"claim"`
}

// Finding is a verdict, its reason, and the writes that it asks for.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`
	// ClaimWrite is the write to the claim, and PVWrite whether the PV is created. They are for a volume
	// that is Made; if neither is asked for, the two are about to be bound.
	ClaimWrite ClaimWrite `json:"claimWrite,omitempty"`
	PVWrite    bool       `json:"pvWrite,omitempty"`
	// Released is set for a volume that is left and whose PV is Released.
	Released bool `json:"released,omitempty"`
}

// ClaimWrite is a write to a claim.
type ClaimWrite string

// The writes.
const (
	NoClaimWrite ClaimWrite = ""
	CreateClaim  ClaimWrite = "create"
	// NameVolume: the claim waits, and gets the PV's name in spec.volumeName.
	NameVolume ClaimWrite = "name volume"
)

// Reason returns why a volume is left, or what a person should know of one that is made.
func (v Volume) Reason() string {
	if v.Verdict == Left {
		return v.Why
	}
	return strings.Join(v.Notes, "; ")
}
