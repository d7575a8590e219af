package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/volume/inspect"
)

// published is what inspect --published -o json prints of a pool.
type published struct {
	Version int             `json:"version"`
	Path    string          `json:"path"`
	Mounts  []inspect.Mount `json:"mounts"`
}

// printPublished prints where the volumes of the pools are mounted. The error says how many places
// these are.
func printPublished(out io.Writer, format string, pools []inspect.Setting) error {
	var errs []error
	table, places := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), 0
	for _, pool := range pools {
		mounts, err := inspect.Published(pool.Path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if format == "json" {
			errs = append(errs, printJSON(out, published{inspect.Version, pool.Path, mounts}))
		} else if len(mounts) > 0 && places == 0 {
			fmt.Fprintln(table, "POOL\tVOLUME\tMOUNTED AT")
		}
		for _, m := range mounts {
			if places++; format != "json" {
				show(table, "%s\t%s\t%s\n", pool.Path, m.Volume, m.Point)
			}
		}
	}
	errs = append(errs, table.Flush())
	if places > 0 {
		errs = append(errs, fmt.Errorf("volumes are mounted at %s: end their pods (kubectl drain) before anything is "+
			"removed there", events.Count(places, "place")))
	}
	return errors.Join(errs...)
}
