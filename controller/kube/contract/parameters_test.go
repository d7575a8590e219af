package contract_test

import (
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

func TestModeAndOwner(t *testing.T) {
	for _, row := range []struct {
		given map[string]string
		spec  volume.Spec
		want  string // in the error
	}{
		{map[string]string{"mode": "0770", "uid": "1000", "gid": "2000"}, volume.Spec{Mode: 0o770, UID: 1000, GID: 2000}, ""},
		{map[string]string{"mode": "3770"}, volume.Spec{Mode: 0o3770}, ""},
		{map[string]string{"uid": "0", "gid": "4294967294"}, volume.Spec{GID: 4294967294}, ""},
		{map[string]string{"mode": "4755"}, volume.Spec{}, `mode is "4755"; it must be an octal mode such as 0770, or 2770 with setgid; setuid is not offered`},
		{map[string]string{"mode": "0"}, volume.Spec{}, `mode is "0"`},
		{map[string]string{"mode": "rwxrwx---"}, volume.Spec{}, `mode is "rwxrwx---"`},
		{map[string]string{"mode": "0888"}, volume.Spec{}, `mode is "0888"`},
		{map[string]string{"mode": ""}, volume.Spec{}, `mode is ""`},
		{map[string]string{"uid": "-1"}, volume.Spec{}, `uid is "-1"; it must be a number from 0 to 4294967294`},
		{map[string]string{"gid": "4294967295"}, volume.Spec{}, `gid is "4294967295"`},
		{map[string]string{"gid": "users"}, volume.Spec{}, `gid is "users"`},
	} {
		for _, s := range []contract.Source{contract.HostPathClass, contract.CSIClass, contract.CSIRequest} {
			p, err := s.Parse(row.given)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v: %v, want words %q", row.given, err, row.want)
			}
			if err == nil && p.Spec != row.spec {
				t.Errorf("%v: %+v", row.given, p)
			}
		}
		// A pod's author does not choose the owner of a directory on the node.
		if _, err := contract.InlineVolume.Parse(row.given); err == nil || !strings.Contains(err.Error(), "unknown volume attribute") {
			t.Errorf("inline %v: %v", row.given, err)
		}
	}
}

func TestQuotaAndInodes(t *testing.T) {
	for _, row := range []struct {
		given map[string]string
		limit record.QuotaPolicy
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
		p, err := contract.CSIRequest.Parse(row.given)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: %v, want words %q", row.given, err, row.want)
		}
		if err == nil && (p.Spec != (volume.Spec{Quota: row.limit, Inodes: row.nodes})) {
			t.Errorf("%v: %+v", row.given, p)
		}
		for _, provisioner := range []string{contract.HostPathProvisioner, contract.CSIProvisioner} {
			sc := csiClass(row.given)
			sc.Provisioner = provisioner
			_, err := contract.ParametersOf(sc)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), `class "fast"`) {
				t.Errorf("%v: %v", row.given, err)
			}
		}
	}
}

// A class says for how long its deleted volumes are kept. Behind a sidecar the agent sees no PVs, with
// which undelete compares them, and refuses the parameter.
func TestRetention(t *testing.T) {
	for text, want := range map[string]int64{"24h": 86400, "90m": 5400, "1s": 1, "0": -1, "0s": -1} {
		for _, s := range []contract.Source{contract.HostPathClass, contract.CSIClass} {
			if p, err := s.Parse(map[string]string{"trashRetention": text}); err != nil || p.Spec.TrashRetention != want {
				t.Errorf("%q: %d, %v; want %d", text, p.Spec.TrashRetention, err, want)
			}
		}
	}
	for _, text := range []string{"", "1d", "-1h", "24", "1500ms", "for ever", "9999999h"} {
		_, err := contract.CSIClass.Parse(map[string]string{"trashRetention": text})
		if err == nil || !strings.Contains(err.Error(), "trashRetention is \""+text+"\"; it must be a duration in whole seconds such as 24h, or 0 for none") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if p, err := contract.CSIClass.Parse(nil); err != nil || p.Spec.TrashRetention != 0 {
		t.Errorf("without it: %d, %v", p.Spec.TrashRetention, err)
	}
	if _, err := contract.CSIRequest.Parse(map[string]string{"trashRetention": "1h"}); err == nil || !strings.Contains(err.Error(), "this one serves a sidecar") {
		t.Errorf("a sidecar: %v", err)
	}
	if _, err := contract.InlineVolume.Parse(map[string]string{"trashRetention": "1h"}); err == nil || !strings.Contains(err.Error(), "unknown volume attribute") {
		t.Errorf("inline: %v", err)
	}
}

// What a copy of a volume may be is no matter of directories without quotas, nor of a pod's author.
func TestCopies(t *testing.T) {
	for _, row := range []struct {
		given        map[string]string
		fuzzy, bytes bool
		want         string // in the error
	}{
		{nil, false, false, ""},
		{map[string]string{"consistency": "crash"}, false, false, ""},
		{map[string]string{"consistency": "fuzzy"}, true, false, ""},
		{map[string]string{"copy": "allowed"}, false, true, ""},
		{map[string]string{"consistency": "fuzzy", "copy": "allowed"}, true, true, ""},
		{map[string]string{"consistency": ""}, false, false, `consistency is ""; it must be crash or fuzzy`},
		{map[string]string{"consistency": "Fuzzy"}, false, false, `consistency is "Fuzzy"`},
		{map[string]string{"copy": "true"}, false, false, `copy is "true"; it must be allowed, or left out`},
		{map[string]string{"copy": ""}, false, false, `copy is ""`},
	} {
		for _, s := range []contract.Source{contract.CSIClass, contract.CSIRequest} {
			p, err := s.Parse(row.given)
			if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v: %v, want words %q", row.given, err, row.want)
			}
			if err == nil && (p.Fuzzy != row.fuzzy || p.CopyBytes != row.bytes) {
				t.Errorf("%v: %+v", row.given, p)
			}
		}
		if len(row.given) == 0 {
			continue
		}
		if _, err := contract.InlineVolume.Parse(row.given); err == nil || !strings.Contains(err.Error(), "unknown volume attribute") {
			t.Errorf("inline %v: %v", row.given, err)
		}
		sc := csiClass(row.given)
		sc.Provisioner = contract.HostPathProvisioner
		if got := contract.Ignored(sc); len(got) != len(row.given) {
			t.Errorf("a hostPath class ignores %q of %v", got, row.given)
		}
	}
}
