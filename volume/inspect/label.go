//go:build linux

package inspect

import (
	"fmt"
	"strings"

	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// label fills in the labels of the volumes, and warns of those that no container may use.
func label(d *pooldir.Dir, r *Report) error {
	names := make([]string, len(r.Volumes))
	for i, v := range r.Volumes {
		names[i] = v.Name
	}
	labels, err := d.Labels(names)
	if err != nil {
		return err
	}
	for i := range r.Volumes {
		r.Volumes[i].Label = labels[r.Volumes[i].Name]
	}
	if closed := closedToContainers(r.Volumes); closed != "" {
		r.Warnings = append(r.Warnings, closed)
	}
	return nil
}

// closedToContainers returns a warning of the volumes whose label keeps containers out, "" if there
// are none. That is the label of files that were restored or moved by hand, as a rule.
func closedToContainers(volumes []Volume) string {
	var closed []string
	for _, v := range volumes {
		if v.Label != "" && !forContainers(v.Label) {
			closed = append(closed, fmt.Sprintf("%s (%s)", v.Name, v.Label))
		}
	}
	if len(closed) == 0 {
		return ""
	}
	return fmt.Sprintf("SELinux may keep containers out of volumes, whose type is not container_file_t: %s; "+
		"label them with RELABEL=volumes of the systemd unit, or chcon -R -t container_file_t", listed(closed))
}

// forContainers reports whether the type of a label is one of the usual policies' for the files of
// containers: container_file_t, or its older name svirt_sandbox_file_t.
func forContainers(label string) bool {
	parts := strings.SplitN(label, ":", 4) // user, role, type, range
	return len(parts) > 2 && (strings.HasPrefix(parts[2], "container_") || parts[2] == "svirt_sandbox_file_t")
}
