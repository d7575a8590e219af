package report

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// cut replaces a value that is left out.
const cut = "(cut)"

// shownAnnotations are prefixes of annotations whose values explain a volume or an agent. Others may
// have anything, such as the whole object with the values of its variables
// (kubectl.kubernetes.io/last-applied-configuration).
var shownAnnotations = []string{"volume.kubernetes.io/", "volume.beta.kubernetes.io/", "pv.kubernetes.io/",
	"storageclass.kubernetes.io/", "storageclass.beta.kubernetes.io/", "hostpath-provisioner.kubevirt.io/",
	"kubevirt.io/provisionOnNode", "hostPathProvisionerIdentity", "deprecated.daemonset.template.generation",
	"csi.volume.kubernetes.io/nodeid", "storage.alpha.kubernetes.io/"}

// containers are those of this project, and the standard sidecars beside the driver.
var containers = []string{"hostpath-provisioner", "hostpath-provisioner-operator", "csi-provisioner",
	"node-driver-registrar", "liveness-probe", "csi-snapshotter"}

// secretName matches names of variables whose values may be secrets.
var secretName = regexp.MustCompile(`(?i)secret|token|passw|credential|private|key`)

// ownVariable matches the variables of this project's programs. Others may have anything, such as a
// proxy with its password.
var ownVariable = regexp.MustCompile(`^((HPP|LP|MIGRATE|PV)_[A-Z_]+|COMPAT|DATADIR|PROVISION|NODE_NAME|` +
	`POD_NAMESPACE|USE_NAMING_PREFIX)$`)

// redacted returns an object as YAML with the fields that are shown, and how many values are left out.
func redacted(object any, apiVersion, kind string) (data []byte, dropped int, err error) {
	if data, err = json.Marshal(object); err != nil {
		return nil, 0, err
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, 0, err
	}
	all["apiVersion"], all["kind"] = apiVersion, kind
	redact(all)
	if kind == "PersistentVolumeClaim" {
		if metadata, ok := all["metadata"].(map[string]any); ok {
			cutValues(metadata["labels"], nil)
		}
	}
	kept, dropped := treeOf(slices.Concat(metadata, shown[kind])...).keep(all)
	n := 0
	kept = scrubbedValue(kept, &n)
	data, err = view.YAML(kept)
	return data, dropped + n, err
}

// redact cuts annotations and containers at any depth: a DaemonSet has those of its pods.
func redact(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			redact(item)
		}
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			cutValues(metadata["annotations"], shownAnnotations)
		}
		for _, list := range []string{"containers", "initContainers"} {
			if all, ok := v[list].([]any); ok {
				cutContainers(all)
			}
		}
		if statuses, ok := v["containerStatuses"].([]any); ok {
			cutStatuses(statuses)
		}
		for _, field := range v {
			redact(field)
		}
	}
}

// cutStatuses cuts what containers of other programs printed when they ended.
func cutStatuses(all []any) {
	for _, one := range all {
		s, _ := one.(map[string]any)
		if name, _ := s["name"].(string); !slices.Contains(containers, name) {
			delete(s, "state")
			delete(s, "lastState")
		}
	}
}

// cutContainers cuts containers of other programs to their names and images, and of others the values
// of variables that are not this project's.
func cutContainers(all []any) {
	for i, one := range all {
		c, _ := one.(map[string]any)
		if name, _ := c["name"].(string); !slices.Contains(containers, name) {
			all[i] = map[string]any{"name": c["name"], "image": c["image"]}
			continue
		}
		if env, ok := c["env"].([]any); ok {
			cutEnv(env)
		}
	}
}

// secrets match what texts of programs may have of secrets: the user of a URL, the header of a login,
// and the value after a word for a secret.
var secrets = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`://[^/\s@"']+@`), "://" + cut + "@"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`), "$1 " + cut},
	{regexp.MustCompile(`(?i)([a-z0-9_-]*(?:passw(?:or)?d|passphrase|token|secret|api[_-]?key|credentials?)` +
		`["']?\s*[:=]\s*)["']?[^\s"',;&)]+`), "${1}" + cut},
	{regexp.MustCompile(`(?i)(--?[a-z0-9_-]*(?:passw(?:or)?d|passphrase|token|secret|api[_-]?key)\s+)["']?[^\s"',;&)]+`),
		"${1}" + cut},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), cut},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), cut},
}

// inVolume matches a path in a directory of a volume: its files are a tenant's.
var inVolume = regexp.MustCompile(`(pvc-[0-9a-f]{8}-[0-9a-f-]{27}[^/\s"]*)/[^\s:"',]+`)

// scrubbed returns a text without what looks like a secret.
func scrubbed(text string) string {
	for _, s := range secrets {
		text = s.what.ReplaceAllString(text, s.with)
	}
	return inVolume.ReplaceAllString(text, "$1/"+cut)
}

// scrubbedValue scrubs the texts of a value, and counts them.
func scrubbedValue(value any, n *int) any {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			v[key] = scrubbedValue(field, n)
		}
	case []any:
		for i, item := range v {
			v[i] = scrubbedValue(item, n)
		}
	case string:
		if s := scrubbed(v); s != v {
			*n++
			return s
		}
	}
	return value
}

// cutValues cuts the values of a map whose keys begin with none of the prefixes.
func cutValues(of any, shown []string) {
	values, _ := of.(map[string]any)
	for key := range values {
		if !slices.ContainsFunc(shown, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			values[key] = cut
		}
	}
}

// cutEnv cuts values of variables. References have none.
func cutEnv(env []any) {
	for _, e := range env {
		variable, _ := e.(map[string]any)
		name, _ := variable["name"].(string)
		if _, has := variable["value"]; has && (!ownVariable.MatchString(name) || secretName.MatchString(name)) {
			variable["value"] = cut
		}
	}
}
