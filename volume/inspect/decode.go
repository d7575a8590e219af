package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Version is that of the JSON of a Report. It changes if a field gets another meaning or goes. A
// new field does not change it: programs that do not have the field ignore it.
const Version = 1

// Decode reads the reports that `inspect -o json` printed, one after the other. A report without a
// version is one of before versions. Decode returns the reports before an error; a report of a
// newer version is one.
func Decode(from io.Reader) (all []Report, err error) {
	for decoder := json.NewDecoder(from); ; {
		var text json.RawMessage
		switch err := decoder.Decode(&text); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, fmt.Errorf("the output of inspect is no JSON: %w", err)
		}
		// The version comes first: the fields of another may have other types.
		var of struct {
			Version int `json:"version"`
		}
		err := json.Unmarshal(text, &of)
		if of.Version > Version {
			return all, fmt.Errorf("the report has version %d, and this program reads up to %d: use the kubectl-hpp of the "+
				"agent's release", of.Version, Version)
		}
		var r Report
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return all, fmt.Errorf("the report of inspect: %w", err)
		}
		all = append(all, r)
	}
}
