package layout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// kubeletDir is the kubelet's directory in agent.yaml.
const kubeletDir = "/var/lib/kubelet"

// Settings returns the data of the ConfigMap, nil if there is none.
func Settings(ctx context.Context, from installed.Reader) (map[string]string, error) {
	var found corev1.ConfigMap
	err := from.Cache.Get(ctx, client.ObjectKey{Namespace: from.Namespace, Name: ConfigMap}, &found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", ConfigMap, err)
	}
	return found.Data, nil
}

// defaultNodeGoneGrace is the setting's value if it is not set.
const defaultNodeGoneGrace = 5 * time.Minute

// NodeGoneGrace returns the setting, its last valid value if it cannot be read, or the default if it
// is not set. It returns an error, so that nothing is given up, if none of these is known, if the
// ConfigMap has a key that may be this one misspelt, or if another installation serves the cluster,
// whose setting may be longer.
func NodeGoneGrace(ctx context.Context, from installed.Reader) (time.Duration, error) {
	if namespace, err := from.Other(ctx); err != nil || namespace != "" {
		return 0, cmp.Or(err, fmt.Errorf("the installation in namespace %s handles volumes of nodes that are gone",
			namespace))
	}
	data, err := Settings(ctx, from)
	if err != nil {
		return 0, err
	}
	p := parseConfigMap(data, nil)
	if len(p.problems) > 0 { // the record is read only if it may matter
		record, err := poolrecord.Read(ctx, from.Live, from.Namespace)
		if err != nil {
			return 0, err
		}
		p = parseConfigMap(data, record.Settings)
	}
	if p.graceUnknown {
		return 0, fmt.Errorf("no volume of a lost node is given up: %s", strings.Join(p.problems, "; "))
	}
	if d, err := time.ParseDuration(p.values[graceKey]); err == nil {
		return d, nil
	}
	return defaultNodeGoneGrace, nil
}

// Tune adds the settings of the ConfigMap to the layout, and to its record the valid values.
func (l *Layout) Tune(data map[string]string) {
	var last map[string]string
	if l.Record != nil {
		last = l.Record.Settings
	}
	p := parseConfigMap(data, last)
	l.Tuned, l.Invalid, l.Withheld = p.values, append(l.Invalid, p.problems...), p.withheld
	if l.Record != nil {
		l.Record.Settings = p.last
	}
	if l.PVDir == "" && l.Migrates() {
		l.Invalid = append(l.Invalid, fmt.Sprintf("ConfigMap %s: %s is %q; set it to off, or use spec.pathConfig: only "+
			"then there are hostPath volumes",
			ConfigMap, settings.MigrateToCSI, l.Tuned[settings.MigrateToCSI]))
		delete(l.Tuned, settings.MigrateToCSI)
	}
}

// pass passes the settings to the agent's container. Flags take precedence over variables, so the
// kubelet's directory is replaced in the arguments, and in the pod's volumes and mounts.
func (l *Layout) pass(pod *corev1.PodSpec) {
	agent := &pod.Containers[0]
	for _, name := range slices.Sorted(maps.Keys(l.Tuned)) {
		if _, is := ownSettings[name]; !is {
			poolrecord.Set(agent, name, l.Tuned[name])
		}
	}
	to := l.Tuned[settings.KubeletDir]
	if to == "" {
		return
	}
	for i, arg := range agent.Args {
		agent.Args[i] = strings.Replace(arg, "="+kubeletDir, "="+to, 1)
	}
	for i, m := range agent.VolumeMounts {
		agent.VolumeMounts[i].MountPath = below(m.MountPath, to)
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			v.HostPath.Path = below(v.HostPath.Path, to)
		}
	}
}

// below returns a path of the kubelet's directory as one of the other, and any other path as it is.
func below(path, dir string) string {
	if rest, ok := strings.CutPrefix(path, kubeletDir+"/"); ok {
		return dir + "/" + rest
	}
	return path
}

// Migrates reports whether the agents may replace PVs.
func (l *Layout) Migrates() bool {
	mode := l.Tuned[settings.MigrateToCSI]
	return mode != "" && mode != string(settings.MigrateOff)
}

// migrateRules are the additional rules of agents that replace PVs, those of
// manifests/examples/migrate.
var migrateRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers"}, Verbs: []string{"get"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csinodes"}, Verbs: []string{"get"}},
}

// PermitMigration adds these rules to the agents' ClusterRole.
func PermitMigration(role *unstructured.Unstructured) error {
	return apply.AddRules(role, migrateRules...)
}
