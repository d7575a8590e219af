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

// redacted returns an object as YAML without what is left out; see leftOut.
func redacted(object any, apiVersion, kind string) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	redact(fields)
	if kind == "PersistentVolumeClaim" {
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			cutValues(metadata["labels"], nil)
		}
	}
	return view.YAML(fields)
}

// redact cuts what is left out of the metadata and containers at any depth: a DaemonSet has those of
// its pods, and a pod those of the claims that it makes.
func redact(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			redact(item)
		}
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
			cutValues(metadata["annotations"], shownAnnotations)
		}
		if env, ok := v["env"].([]any); ok {
			name, _ := v["name"].(string)
			cutEnv(env, slices.Contains(containers, name))
		}
		for _, field := range v {
			redact(field)
		}
	}
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
func cutEnv(env []any, own bool) {
	for _, e := range env {
		variable, _ := e.(map[string]any)
		name, _ := variable["name"].(string)
		if _, has := variable["value"]; has && (!own || secretName.MatchString(name)) {
			variable["value"] = cut
		}
	}
}
