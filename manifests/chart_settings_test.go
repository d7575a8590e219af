package manifests_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	program "kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/disks"
	"kubevirt.io/hostpath-provisioner/controller/operator"
	"kubevirt.io/hostpath-provisioner/volume/fault"
)

// -renders is a directory of more renders of the chart, which package e2e/chart makes of every pair of
// values.
var renders = flag.String("renders", "", "a directory of renders of the chart")

// Each program accepts the settings that the chart gives it, by its own parsers and checks.
func TestRenderedSettings(t *testing.T) {
	files, err := filepath.Glob("../e2e/chart/renders/*.yaml")
	if *renders != "" {
		files, err = filepath.Glob(filepath.Join(*renders, "*.yaml"))
	}
	if err != nil || len(files) < 19 {
		t.Fatalf("%d renders, %v", len(files), err)
	}
	for _, v := range os.Environ() { // what this process has is no setting of an agent
		if name, _, _ := strings.Cut(v, "="); settingNames(name) {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	seen := map[string]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for kind, err := range refusedSettings(t, string(data)) {
			if seen[kind]++; err != nil {
				t.Errorf("%s: %s: %v", file, kind, err)
			}
		}
	}
	if seen["agents"] < 10 || seen["disks"] == 0 || seen["operator"] == 0 {
		t.Errorf("judged %v", seen)
	}
	t.Logf("judged %v of %d renders", seen, len(files))
}

func settingNames(name string) bool {
	return strings.HasPrefix(name, "HPP_") || strings.HasPrefix(name, "LP_") || strings.HasPrefix(name, "MIGRATE_") || strings.HasPrefix(name, "PV_") ||
		slices.Contains([]string{"COMPAT", "DATADIR", "PROVISION", "NODE_NAME", "POD_NAME", "POD_NAMESPACE", "USE_NAMING_PREFIX"}, name)
}

// refusedSettings returns what the program of each workload of a render, and the agents of raw disks for
// each of their ConfigMaps, answer to the settings.
func refusedSettings(t *testing.T, render string) map[string]error {
	t.Helper()
	var configs []corev1.ConfigMap
	pods := map[string]corev1.PodSpec{}
	for document := range strings.SplitSeq("\n"+render, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		into := func(target any) {
			if err := yaml.Unmarshal([]byte(document), target); err != nil {
				t.Fatal(err)
			}
		}
		switch into(&o); o.Kind {
		case "ConfigMap":
			var cm corev1.ConfigMap
			into(&cm)
			configs = append(configs, cm)
		case "DaemonSet":
			var w appsv1.DaemonSet
			into(&w)
			pods[o.Metadata.Name] = w.Spec.Template.Spec
		case "Deployment":
			var w appsv1.Deployment
			into(&w)
			pods[o.Metadata.Name] = w.Spec.Template.Spec
		}
	}
	answers := map[string]error{}
	for name, pod := range pods {
		c := pod.Containers[0]
		switch name {
		case "hostpath-provisioner-operator":
			_, ignored, err := operator.ParseSettings("v0", func(name string) string { return environment(c)[name] })
			if answers["operator"] = err; len(ignored) > 0 {
				answers["operator"] = errors.Join(err, errors.New("ignored: "+strings.Join(ignored, " ")))
			}
		case disksName:
			answers["disks"] = errors.Join(disksAccept(t, c), configsAccepted(configs))
		default:
			answers["agents"] = agentAccepts(t, c, configs)
		}
	}
	return answers
}

func configsAccepted(all []corev1.ConfigMap) error {
	var errs []error
	for _, cm := range all {
		if _, is := cm.Data["deviceDir"]; is {
			errs = append(errs, disks.CheckConfigMap(&cm))
		}
	}
	return errors.Join(errs...)
}

// inEnvironment calls f with the variables of a container, with the fields of its pod filled in.
func inEnvironment(t *testing.T, c corev1.Container, f func() error) (err error) {
	t.Helper()
	t.Run("environment", func(t *testing.T) { // which ends with it
		for name, value := range environment(c) {
			t.Setenv(name, value)
		}
		err = f()
	})
	return err
}

func disksAccept(t *testing.T, c corev1.Container) error {
	t.Helper()
	return inEnvironment(t, c, func() error {
		_, err := disks.Parse(c.Args[1:], io.Discard)
		return err
	})
}

// agentAccepts returns the agent's answer to its settings. Directories of this machine prove nothing: an
// absent one is none of the chart.
func agentAccepts(t *testing.T, c corev1.Container, configs []corev1.ConfigMap) error {
	t.Helper()
	for i, v := range c.Env {
		if v.Name != "HPP_LOCAL_PATH_CONFIG" {
			continue
		}
		for _, cm := range configs {
			if cm.Name == "local-path-config" {
				file := filepath.Join(t.TempDir(), "config.json")
				if err := os.WriteFile(file, []byte(cm.Data["config.json"]), 0o600); err != nil {
					t.Fatal(err)
				}
				c.Env[i].Value = file
			}
		}
	}
	return inEnvironment(t, c, func() error {
		_, err := program.Parse("v0", c.Args, io.Discard)
		if errors.Is(err, fault.ErrNotReady) {
			return nil
		}
		return err
	})
}
