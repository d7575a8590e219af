package cluster

import (
	"strings"
	"testing"
)

const editedGoMod = `{
  "Go": "1.24.0",
  "Godebug": [{"Key": "default", "Value": "go1.24"}],
  "Replace": [
    {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
    {"Old": {"Path": "example.org/forked", "Version": "v1.0.0"}, "New": {"Path": "example.org/fork", "Version": "v1.0.1"}}
  ]
}`

func TestWrapperModule(t *testing.T) {
	got, err := wrapperModule("v1.34.4", []byte(editedGoMod))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"go 1.24.0",
		"godebug default=go1.24",
		"require k8s.io/kubernetes v1.34.4",
		"replace k8s.io/api => k8s.io/api v0.34.4",
		"replace example.org/forked v1.0.0 => example.org/fork v1.0.1",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, got)
		}
	}
}

func TestWrapperModuleRefusesOtherDirectories(t *testing.T) {
	edited := strings.Replace(editedGoMod, "./staging/src/k8s.io/api", "../elsewhere", 1)
	if _, err := wrapperModule("v1.34.4", []byte(edited)); err == nil || !strings.Contains(err.Error(), "k8s.io/api") {
		t.Errorf("error %v, want one that names k8s.io/api", err)
	}
}

func TestMinorVersion(t *testing.T) {
	for version, want := range map[string]int{"v1.34.4": 34, "v1.30.0": 30, "v1.37.0-rc.1": 37} {
		if got, err := minorVersion(version); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", version, got, err, want)
		}
	}
	for _, version := range []string{"", "1.34.4", "v1.34", "latest", "v2.0.0", "v1.34.4; rm"} {
		if _, err := minorVersion(version); err == nil {
			t.Errorf("%q was taken for a version", version)
		}
	}
}

func TestVersionFlags(t *testing.T) {
	flags := versionFlags("v1.34.4")
	for _, want := range []string{"-s -w", "component-base/version.gitVersion=v1.34.4", "version.gitMinor=34"} {
		if !strings.Contains(flags, want) {
			t.Errorf("no %q in %s", want, flags)
		}
	}
}
