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
	settings.MetricsAuth: "spec.metricsAuth",
}

// answer is what happens while a setting cannot be read and has no last valid value. It destroys no
// more than any value that may be meant.
type answer struct {
	// until describes it, as in "until then ...".
	until string
	// set are settings that have these values meanwhile.
	set map[string]string
	// withheld is set if the agents stay as they are.
	withheld bool
}

var (
	byDefault = answer{until: "its default applies"}
	unchanged = answer{until: "the agents are not changed", withheld: true}
	keptLong  = answer{until: "deleted volumes are kept for 168h", set: map[string]string{"HPP_TRASH_RETENTION": "168h"}}
	onlyTold  = answer{until: "orphans are only reported", set: map[string]string{"HPP_ORPHANS": "report"}}
)

// answers has the answer of each setting of the ConfigMap. Defaults that only do less are enough for
// the others.
var answers = map[string]answer{
	graceKey: {until: "no volume of a lost node is given up"},
	"PV_RECLAIM_POLICY": {until: "new volumes have the policy Retain",
		set: map[string]string{"PV_RECLAIM_POLICY": "Retain"}},
	"HPP_TRASH_RETENTION": keptLong, "HPP_TRASH_RETENTION_MAX": byDefault,
	"HPP_ORPHANS": onlyTold, "HPP_ORPHAN_GRACE": onlyTold,
	settings.KubeletDir: unchanged, "HPP_RESERVE": unchanged, "HPP_DIRECTORY_MODE": unchanged,
	"HPP_SELINUX_LABEL":  unchanged,
	"HPP_INLINE_VOLUMES": {until: "pods get no new inline volumes", set: map[string]string{"HPP_INLINE_VOLUMES": "none"}},
	"HPP_OVERCOMMIT":     byDefault, "HPP_ENABLE_BTRFS_QUOTA": byDefault, "HPP_PURGE_RATE": byDefault,
	"HPP_COPY_RATE":        byDefault,
	"HPP_PUBLISH_CAPACITY": byDefault, "HPP_CAPACITY": byDefault,
	settings.MigrateToCSI: byDefault, "MIGRATE_FROM": byDefault, "MIGRATE_USED": byDefault,
	"HPP_KUBE_API_QPS": byDefault, "HPP_METRICS_PER_VOLUME": byDefault,
}

// parsed is what the ConfigMap means.
type parsed struct {
	// values are those that apply.
	values map[string]string
	// last are the last valid values, of those that are set or that may be misspelt.
	last map[string]string
	// problems are in the order of the keys.
	problems []string
	// withheld is set if the agents stay as they are until a setting can be read.
	withheld bool
	// graceUnknown is set if nothing is given up meanwhile: the grace period cannot be read, or a key
	// that does not exist may be its misspelling.
	graceUnknown bool
}

// parseConfigMap returns what the ConfigMap means, and what is wrong with it. A value that cannot be
// read is replaced by the last valid one, and so is a key that is gone while there is one that does
// not exist: it may be misspelt. An empty value counts as not set, as it does for the agent.
func parseConfigMap(data, last map[string]string) parsed {
	kinds, unknown := configMapKinds(), false
	p := parsed{values: map[string]string{}, last: map[string]string{}}
	meanwhile := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := data[name]
		kind, known := kinds[name]
		before, has := last[name]
		var do string
		switch source := derivedSettings[name]; {
		case value == "":
			continue
		case source != "":
			do = "it comes from " + source + ", so remove it"
		case !known:
			do, unknown = "there is no such setting, so remove it", true
		case kind.Accepts(value):
			p.last[name] = value
			continue
		case has && kind.Accepts(before):
			p.last[name] = before
			do = fmt.Sprintf("set it to %s; until then its last valid value applies, %s", kind.Want, before)
		default:
			a := answers[name]
			do = "set it to " + kind.Want + "; until then " + a.until
			maps.Copy(meanwhile, a.set)
			p.withheld = p.withheld || a.withheld
			p.graceUnknown = p.graceUnknown || name == graceKey
		}
		p.problems = append(p.problems, fmt.Sprintf("ConfigMap %s: %s is %q; %s", ConfigMap, name, value, do))
	}
	p.graceUnknown = p.graceUnknown || unknown
	for name, value := range last {
		if _, there := data[name]; unknown && !there && kinds[name].Want != "" && kinds[name].Accepts(value) {
			p.last[name] = value
		}
	}
	maps.Copy(p.values, p.last)
	maps.Copy(p.values, meanwhile)
	return p
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
