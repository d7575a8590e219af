// Package agentenv validates the settings of the agents for which the resource has no key. Users write them into a ConfigMap;
// its keys are environment variables of the agent.
package agentenv

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// ConfigMap is the name of the ConfigMap, which is in the operator's namespace.
const ConfigMap = "hostpath-provisioner-settings"

// The operator does more for these variables than to pass them on.
const (
	KubeletDir   = "HPP_KUBELET_DIR"
	MigrateToCSI = "MIGRATE_TO_CSI"
)

// NodeGoneGrace is a setting of the operator itself. Agents do not get it.
const NodeGoneGrace = "nodeGoneGrace"

// Variable is a variable of the agent with its value.
type Variable struct{ Name, Value string }

// check returns what a value has to be, or "" if it is.
type check func(value string) (want string)

// checks are the variables of the agent that the ConfigMap may have.
var checks = map[string]check{
	"HPP_RESERVE": func(v string) string {
		q, err := resource.ParseQuantity(v)
		return unless(err == nil && q.Sign() >= 0, "a quantity such as 10Gi")
	},
	"HPP_OVERCOMMIT":         number(func(n float64) bool { return n > 0 }, "a number above zero"),
	"HPP_ENABLE_BTRFS_QUOTA": boolean,
	"HPP_PURGE_RATE":         natural,
	"HPP_PUBLISH_CAPACITY":   boolean,
	"HPP_KUBE_API_QPS":       number(func(n float64) bool { return n > 0 }, "a number above zero"),
	"HPP_METRICS_PER_VOLUME": boolean,
	"HPP_CAPACITY":           oneOf("request", "filesystem"),
	"HPP_SELINUX_LABEL":      func(string) string { return "" },
	"HPP_ORPHANS":            oneOf("report", "delete"),
	"PV_RECLAIM_POLICY":      oneOf("Delete", "Retain"),
	"MIGRATE_USED":           boolean,
	"HPP_DIRECTORY_MODE":     parsed(record.ParseMode),
	MigrateToCSI:             parsed(settings.ParseMigrateMode),
	"MIGRATE_FROM":           parsed(contract.ParseProvisioners),
	"HPP_ORPHAN_GRACE":       duration("24h"),
	KubeletDir: func(v string) string {
		return unless(filepath.IsAbs(v) && filepath.Clean(v) == v && v != "/", "an absolute path without . and ..")
	},
}

// own are the settings of the operator.
var own = map[string]check{NodeGoneGrace: duration("5m")}

// derived are variables that the operator sets itself, each with its source.
var derived = map[string]string{
	"DATADIR": "spec.storagePools or spec.pathConfig", "PV_DIR": "spec.pathConfig.path", "PROVISION": "spec.pathConfig",
	"USE_NAMING_PREFIX": "spec.pathConfig.useNamingPrefix", "NODE_NAME": "the pod", "POD_NAME": "the pod", "POD_NAMESPACE": "the pod",
	"HPP_V": "VERBOSITY of the operator",
}

// Names returns the variables of the agent that the ConfigMap may have.
func Names() []string { return slices.Sorted(maps.Keys(checks)) }

// Parse returns the valid settings, and what is wrong with the others, both in the order of their names. An empty value counts
// as not set, as it does for the agent.
func Parse(data map[string]string) (valid []Variable, problems []string) {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := data[name]
		if value == "" {
			continue
		}
		if problem := wrong(name, value); problem != "" {
			problems = append(problems, fmt.Sprintf("ConfigMap %s: %s is %q; %s", ConfigMap, name, value, problem))
			continue
		}
		valid = append(valid, Variable{name, value})
	}
	return valid, problems
}

func wrong(name, value string) string {
	ok, known := checks[name]
	if source := derived[name]; source != "" {
		return "it comes from " + source + ", so remove it"
	}
	if !known {
		ok, known = own[name]
	}
	if !known {
		return "there is no such setting, so remove it"
	}
	if want := ok(value); want != "" {
		return "set it to " + want
	}
	return ""
}

func duration(example string) check {
	return func(v string) string {
		d, err := time.ParseDuration(v)
		return unless(err == nil && d >= 0, "a duration such as "+example)
	}
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func boolean(v string) string {
	_, err := strconv.ParseBool(strings.ToLower(v))
	return unless(err == nil, "true or false")
}

func natural(v string) string {
	n, err := strconv.ParseInt(v, 0, 0)
	return unless(err == nil && n >= 0, "a number that is not negative")
}

func number(ok func(float64) bool, want string) check {
	return func(v string) string {
		n, err := strconv.ParseFloat(v, 32)
		return unless(err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) && ok(n), want)
	}
}

func oneOf(values ...string) check {
	return func(v string) string { return unless(slices.Contains(values, v), strings.Join(values, " or ")) }
}

// parsed is a check by a function that parses the value, whose error names what is accepted.
func parsed[T any](parse func(string) (T, error)) check {
	return func(v string) string {
		if _, err := parse(v); err != nil {
			return "another value: " + err.Error()
		}
		return ""
	}
}
