package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// Driver is the name under which the suite lists the specs of driver.yaml.
const Driver = "kubevirt.io.hostpath-provisioner"

// prefix begins the name of each spec of the suite for this driver.
const prefix = "External Storage [Driver: " + Driver + "] "

// Spec is one spec of the suite, and what became of it.
type Spec struct {
	Name    string // without prefix
	Outcome Outcome
	Why     string // what it failed with, or the capability without which the suite skipped it
	Took    time.Duration
}

// Outcome is what became of a spec.
type Outcome int

// The outcomes of a spec.
const (
	Passed Outcome = iota
	Failed
	Skipped // by the suite, which gives a reason
	Left    // by this run's own filter
)

// Read returns the specs of this driver from a report of Ginkgo in JSON. A spec that was interrupted
// has failed. The error names what is no report.
func Read(report io.Reader) (all []Spec, err error) {
	var reports []types.Report
	if err := json.NewDecoder(report).Decode(&reports); err != nil {
		return nil, fmt.Errorf("the report of the storage tests: %w", err)
	}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if name, ours := strings.CutPrefix(s.FullText(), prefix); ours {
				all = append(all, Spec{Name: name, Outcome: outcome(s), Why: why(s), Took: s.RunTime})
			}
		}
	}
	return all, nil
}

func outcome(s types.SpecReport) Outcome {
	switch {
	case s.State == types.SpecStatePassed:
		return Passed
	case s.State == types.SpecStateSkipped && s.Failure.Message != "":
		return Skipped
	case s.State == types.SpecStateSkipped, s.State == types.SpecStatePending:
		return Left
	}
	return Failed
}

// why is the first line of the message, without the time that Kubernetes writes before it.
func why(s types.SpecReport) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s.Failure.Message), "\n")
	return line
}
