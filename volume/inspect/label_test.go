package inspect

import "testing"

func TestClosedToContainers(t *testing.T) {
	of := func(labels ...string) (all []Volume) {
		for i, label := range labels {
			all = append(all, Volume{Name: string(rune('a' + i)), Label: label})
		}
		return all
	}
	const (
		ours    = "system_u:object_r:container_file_t:s0:c1,c2"
		older   = "system_u:object_r:svirt_sandbox_file_t:s0"
		var_    = "system_u:object_r:var_t:s0"
		command = "; label them with RELABEL=volumes of the systemd unit, or chcon -R -t container_file_t"
		begin   = "SELinux may keep containers out of volumes, whose type is not container_file_t: "
	)
	for _, row := range []struct {
		volumes []Volume
		want    string
	}{
		{nil, ""},
		{of("", ours, older), ""}, // "" where the filesystem supports none
		{of(ours, var_), begin + "b (" + var_ + ")" + command},
		{of(var_, var_, "odd", var_, ours, var_), begin + "a (" + var_ + "), b (" + var_ + "), c (odd) and 2 more" + command},
	} {
		if got := closedToContainers(row.volumes); got != row.want {
			t.Errorf("closedToContainers(%v) = %q, want %q", row.volumes, got, row.want)
		}
	}
}
