package layout

import (
	"fmt"
	"maps"
	"slices"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// ConfigMap is the name of the ConfigMap, in the operator's namespace, with the settings for which
// the resource has no key. Its keys are variables of the agent and settings of the operator.
const ConfigMap = "hostpath-provisioner-settings"

// graceKey is a setting of the operator itself. Agents do not get it.
const graceKey = "nodeGoneGrace"

// ownSettings are the settings that the operator does not pass on. It moves the pods' mounts to the
// kubelet's directory, so it accepts fewer paths than an agent.
var ownSettings = map[string]settings.Kind{
	graceKey:            settings.Duration("5m"),
	settings.KubeletDir: settings.Directory,
}

// derivedSettings are variables of the agent that the operator sets itself, each with its source.
var derivedSettings = map[string]string{
	"DATADIR": "spec.storagePools or spec.pathConfig", "PV_DIR": "spec.pathConfig.path",
	settings.Provision: "spec.pathConfig", "USE_NAMING_PREFIX": "spec.pathConfig.useNamingPrefix",
	"NODE_NAME": "the pod", settings.PodName: "the pod", "POD_NAMESPACE": "the pod", "HPP_V": "VERBOSITY of the operator",
}

// parseConfigMap returns the valid settings, and what is wrong with the others in the order of
// their names. An empty value counts as not set, as it does for the agent.
func parseConfigMap(data map[string]string) (valid map[string]string, problems []string) {
	kinds, valid := configMapKinds(), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := data[name]
		kind, known := kinds[name]
		var do string
		switch source := derivedSettings[name]; {
		case value == "":
			continue
		case source != "":
			do = "it comes from " + source + ", so remove it"
		case !known:
			do = "there is no such setting, so remove it"
		case !kind.Accepts(value):
			do = "set it to " + kind.Want
		default:
			valid[name] = value
			continue
		}
		problems = append(problems, fmt.Sprintf("ConfigMap %s: %s is %q; %s", ConfigMap, name, value, do))
	}
	return valid, problems
}

// configMapKinds returns the kinds of the values that the ConfigMap may have, by its keys.
func configMapKinds() map[string]settings.Kind {
	all := maps.Clone(ownSettings)
	for _, section := range settings.Agent("") {
		for _, s := range section.Settings {
			if s.ConfigMap {
				all[s.Variable()] = s.Kind
			}
		}
	}
	return all
}
