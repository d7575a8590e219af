package class_test

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

func TestQuotaAndInodes(t *testing.T) {
	for _, row := range []struct {
		given map[string]string
		limit volume.QuotaPolicy
		nodes uint64
		want  string // in the error
	}{
		{nil, "", 0, ""},
		{map[string]string{"quota": "best-effort"}, "", 0, ""},
		{map[string]string{"quota": "required", "inodes": "1000"}, "required", 1000, ""},
		{map[string]string{"quota": "none"}, "none", 0, ""},
		{map[string]string{"inodes": "1"}, "", 1, ""},
		{map[string]string{"quota": ""}, "", 0, `quota is ""`},
		{map[string]string{"quota": "Required"}, "", 0, `"Required"; it must be required, best-effort or none`},
		{map[string]string{"inodes": "0"}, "", 0, `inodes is "0"`},
		{map[string]string{"inodes": "-1"}, "", 0, "above zero"},
		{map[string]string{"inodes": "10k"}, "", 0, `"10k"`},
		{map[string]string{"inodes": "18446744073709551615"}, "", 0, "whole number"},
		{map[string]string{"quota": "none", "inodes": "5"}, "", 0, "leave one out"},
		{map[string]string{"limit": "required"}, "", 0, "parameter limit is now named quota"},
	} {
		p, err := class.CSIRequest.Parse(row.given)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: %v, want words %q", row.given, err, row.want)
		}
		if err == nil && (p.Spec != (volume.Spec{Quota: row.limit, Inodes: row.nodes})) {
			t.Errorf("%v: %+v", row.given, p)
		}
		for _, provisioner := range []string{class.HostPathProvisioner, class.CSIProvisioner} {
			sc := csiClass(row.given)
			sc.Provisioner = provisioner
			_, err := class.ParametersOf(sc)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), `class "fast"`) {
				t.Errorf("%v: %v", row.given, err)
			}
		}
	}
}
