package cluster

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DefaultVersion is the Kubernetes version if none is named.
const DefaultVersion = "v1.34.4"

// etcdVersion is the same for every Kubernetes version: all of them accept it.
const etcdVersion = "v3.6.16"

var versionPattern = regexp.MustCompile(`^v1\.(\d+)\.\d+(-[0-9A-Za-z.]+)?$`)

// minorVersion checks a version such as v1.34.4 and returns its middle number.
func minorVersion(version string) (int, error) {
	m := versionPattern.FindStringSubmatch(version)
	if m == nil {
		return 0, fmt.Errorf("kubernetes version %q: want the exact form v1.34.4", version)
	}
	return strconv.Atoi(m[1])
}

// goMod is the part of `go mod edit -json` that is needed to build a module from another one.
type goMod struct {
	Go      string
	Godebug []struct{ Key, Value string }
	Replace []struct{ Old, New modulePath }
}

type modulePath struct{ Path, Version string }

// wrapperModule writes the go.mod of a module from which the components of a Kubernetes version can
// be built. edited is that version's own go.mod as `go mod edit -json` prints it. Kubernetes
// replaces its libraries by directories of its source tree; replacements do not reach other
// modules, so each is repeated here with the release of the same number.
func wrapperModule(version string, edited []byte) (string, error) {
	var mod goMod
	if err := json.Unmarshal(edited, &mod); err != nil {
		return "", fmt.Errorf("go.mod of kubernetes %s: %w", version, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module wrapper\n\ngo %s\n\n", mod.Go)
	for _, d := range mod.Godebug {
		fmt.Fprintf(&b, "godebug %s=%s\n", d.Key, d.Value)
	}
	fmt.Fprintf(&b, "\nrequire k8s.io/kubernetes %s\n\n", version)
	staging := "v0." + strings.TrimPrefix(version, "v1.")
	for _, r := range mod.Replace {
		to := r.New
		if strings.HasPrefix(to.Path, "./staging/src/") {
			to = modulePath{r.Old.Path, staging}
		}
		if to.Version == "" {
			return "", fmt.Errorf("go.mod of kubernetes %s: do not know how to follow the replacement of %s by %s", version,
				r.Old.Path, to.Path)
		}
		fmt.Fprintf(&b, "replace %s => %s %s\n", strings.TrimSpace(r.Old.Path+" "+r.Old.Version), to.Path, to.Version)
	}
	return b.String(), nil
}

// versionFlags returns the linker flags that set the version of the components, as a release build
// does.
func versionFlags(version string) string {
	minor, _ := minorVersion(version)
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X", pkg+".gitVersion="+version,
			"-X", pkg+".gitMajor=1",
			"-X", fmt.Sprintf("%s.gitMinor=%d", pkg, minor))
	}
	return strings.Join(flags, " ")
}
