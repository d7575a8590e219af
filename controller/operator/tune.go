package operator

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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// kubeletDir is the kubelet's directory in agent.yaml.
const kubeletDir = "/var/lib/kubelet"

// settings returns the data of the ConfigMap, nil if there is none.
func (r *Reconciler) settings(ctx context.Context) (map[string]string, error) {
	var found corev1.ConfigMap
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: configMap}, &found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", configMap, err)
	}
	return found.Data, nil
}

// defaultNodeGoneGrace is the setting's value if it is not set.
const defaultNodeGoneGrace = 5 * time.Minute

// nodeGoneGrace returns the setting, or the default if it is not set or invalid. It returns an
// error if another installation serves the cluster, whose setting may be longer.
func (r *Reconciler) nodeGoneGrace(ctx context.Context) (time.Duration, error) {
	if namespace, err := r.installed().Other(ctx); err != nil || namespace != "" {
		return 0, cmp.Or(err, fmt.Errorf("the installation in namespace %s handles volumes of nodes that are gone",
			namespace))
	}
	data, err := r.settings(ctx)
	if err != nil {
		return 0, err
	}
	valid, _ := parseConfigMap(data)
	if d, err := time.ParseDuration(valid[graceKey]); err == nil {
		return d, nil
	}
	return defaultNodeGoneGrace, nil
}

// tune adds the settings of the ConfigMap to the layout.
func (l *layout) tune(data map[string]string) {
	l.tuned, l.invalid = parseConfigMap(data)
	if l.pvDir == "" && l.migrates() {
		l.invalid = append(l.invalid, fmt.Sprintf("ConfigMap %s: %s is %q; set it to off, or use spec.pathConfig: only "+
			"then there are hostPath volumes",
			configMap, settings.MigrateToCSI, l.tuned[settings.MigrateToCSI]))
		delete(l.tuned, settings.MigrateToCSI)
	}
}

// pass passes the settings to the agent's container. Flags take precedence over variables, so the
// kubelet's directory is replaced in the arguments, and in the pod's volumes and mounts.
func (l *layout) pass(pod *corev1.PodSpec) {
	agent := &pod.Containers[0]
	for _, name := range slices.Sorted(maps.Keys(l.tuned)) {
		if _, is := ownSettings[name]; !is {
			set(agent, name, l.tuned[name])
		}
	}
	to := l.tuned[settings.KubeletDir]
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

// migrates reports whether the agents may replace PVs.
func (l *layout) migrates() bool {
	mode := l.tuned[settings.MigrateToCSI]
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

// permitMigration adds these rules to the agents' ClusterRole.
func permitMigration(role *unstructured.Unstructured) error {
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	for i := range migrateRules {
		rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&migrateRules[i])
		if err != nil {
			return err
		}
		rules = append(rules, rule)
	}
	role.Object["rules"] = rules
	return err
}
