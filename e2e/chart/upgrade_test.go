package chart

import (
	"strings"
	"testing"
)

// The check before an upgrade gets the settings that change what the agents of the form serve.
func TestUpgradeCheckKnowsTheSettings(t *testing.T) {
	out, err := template(t, "form=both", `env.PROVISION=hostpath\,csi`, "env.COMPAT=local-path", "env.HPP_RESERVE=1Gi")
	for _, want := range []string{"--env=PROVISION=hostpath,csi\n", "--env=COMPAT=local-path\n"} {
		if err != nil || strings.Count(out, want) != 1 {
			t.Errorf("%v: %q is there %d times", err, want, strings.Count(out, want))
		}
	}
	if strings.Contains(out, "--env=HPP_RESERVE") {
		t.Error("the check gets a setting that changes nothing for it")
	}
}

// Without the check the chart has nothing for it.
func TestWithoutUpgradeCheck(t *testing.T) {
	for _, form := range []string{"csi", "none"} {
		if out, err := template(t, "form="+form, "removalCheck=false"); err != nil || strings.Contains(out, "helm.sh/hook:") || strings.Contains(out, "hostpath-provisioner-removal") {
			t.Errorf("%s: %v %s", form, err, out)
		}
	}
}
