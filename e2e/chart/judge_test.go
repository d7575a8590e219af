package chart

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// parsed has the programs' own parsers and checks judge the settings in the renders that were kept.
func parsed(t *testing.T, renders string) {
	t.Helper()
	cmd := exec.Command("go", "test", "-C", "../..", "./manifests", "-run=^TestRenderedSettings$", "-count=1", "-v", "-args", "-renders="+renders)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "judged map") {
			t.Log(strings.TrimSpace(line))
			return
		}
	}
	t.Errorf("nothing was judged: %s", out)
}

// object is what of an object is judged.
type object struct {
	workload
	Data     map[string]string
	Subjects []struct{ Name, Namespace string }
}

// judged returns what of a render cannot work.
func judged(t *testing.T, out, namespace string, values map[string]any) (wrong []string) {
	t.Helper()
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	seen, configs, params := map[string]bool{}, map[string]map[string]string{}, []string{}
	var dirs []string
	for document := range strings.SplitSeq("\n"+out, "\n---\n") {
		var o object
		var binding struct {
			Spec struct {
				ParamRef *struct{ Name, Namespace string }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			bad("%v", err)
			continue
		}
		if err := yaml.Unmarshal([]byte(document), &binding); err == nil && binding.Spec.ParamRef != nil {
			params = append(params, binding.Spec.ParamRef.Namespace+"/"+binding.Spec.ParamRef.Name)
		}
		if o.Kind == "" {
			continue
		}
		name := o.Kind + " " + o.Namespace + "/" + o.Name
		if seen[name] {
			bad("%s is there twice", name)
		}
		if seen[name] = true; o.Namespace != "" && o.Namespace != namespace && o.Namespace != "monitoring" {
			bad("%s is in another namespace", name)
		}
		if o.Kind == "ConfigMap" {
			configs[o.Namespace+"/"+o.Name] = o.Data
		}
		for _, s := range o.Subjects {
			if s.Namespace != "" && s.Namespace != namespace && s.Namespace != "monitoring" {
				bad("%s binds %s/%s", name, s.Namespace, s.Name)
			}
		}
		if o.Kind == "DaemonSet" {
			dirs = append(dirs, mounted(o.workload, configs, bad)...)
		}
	}
	for _, p := range params {
		config, is := configs[p]
		if !is {
			bad("a policy reads the ConfigMap %s, which is not there", p)
			continue
		}
		allowed := strings.Split(config["POOL_DIRS"], ",")
		if config["POOL_DIRS"] == "" {
			allowed = []string{"/var/hpvolumes", "/opt/local-path-provisioner", "/var/kubernetes"}
		}
		for _, d := range dirs {
			if !below(d, allowed) {
				bad("the policies refuse volumes in %s: POOL_DIRS is %s", d, allowed)
			}
		}
	}
	return wrong
}

func below(dir string, any []string) bool {
	return slices.ContainsFunc(any, func(a string) bool { return strings.HasPrefix(path.Clean(dir)+"/", path.Clean(a)+"/") })
}

// mounted checks the mounts of an agent against its settings, and returns the directories of its volumes.
func mounted(w workload, configs map[string]map[string]string, bad func(string, ...any)) (dirs []string) {
	pod := w.Spec.Template.Spec
	c := pod.Containers[0]
	var mounts []string
	volumes := map[string]string{}
	for _, v := range pod.Volumes {
		if _, twice := volumes[v.Name]; twice {
			bad("%s: volume %s is there twice", w.Name, v.Name)
		}
		if volumes[v.Name] = ""; v.HostPath != nil {
			volumes[v.Name] = v.HostPath.Path
		}
	}
	for _, m := range c.VolumeMounts {
		host, is := volumes[m.Name]
		if !is || slices.Contains(mounts, m.MountPath) || m.MountPath == "/" || host == "/" || strings.Contains(m.MountPath, "//") {
			bad("%s: mount %s of volume %s of %s", w.Name, m.MountPath, m.Name, host)
		}
		mounts = append(mounts, m.MountPath)
	}
	setting := map[string]string{}
	for _, e := range c.Env {
		if _, twice := setting[e.Name]; twice || strings.Contains(e.Value, "e+") {
			bad("%s: variable %s=%s", w.Name, e.Name, e.Value)
		}
		setting[e.Name] = e.Value
	}
	var points []string
	if dir := setting["PV_DIR"]; dir != "" {
		dirs = append(dirs, dir)
		points = append(points, setting["PV_DIR_MOUNT"])
	}
	var pools []struct{ Path, Mount string }
	if err := json.Unmarshal([]byte(setting["DATADIR"]), &pools); err != nil && setting["DATADIR"] != "" {
		bad("DATADIR: %v", err)
	}
	for _, p := range pools {
		dirs, points = append(dirs, p.Path), append(points, p.Mount)
	}
	var local struct{ NodePathMap []struct{ Paths []string } }
	for name, data := range configs {
		if strings.HasSuffix(name, "/local-path-config") && w.Name == "hostpath-provisioner-local-path" && json.Unmarshal([]byte(data["config.json"]), &local) != nil {
			bad("%s is no JSON", name)
		}
	}
	for _, n := range local.NodePathMap {
		dirs = append(dirs, n.Paths...)
	}
	for _, d := range dirs {
		if !below(d, mounts) {
			bad("%s: %s is below none of its mounts, %s", w.Name, d, mounts)
		}
	}
	for _, p := range points {
		if p != "" && (slices.Contains(mounts, path.Clean(p)) || !below(p, mounts)) {
			bad("%s: the mount point %s is a mount of the pod, or below none: %s", w.Name, p, mounts)
		}
	}
	if w.Name == "hostpath-provisioner-disks" {
		for name, data := range configs {
			if dir := data["deviceDir"]; dir != "" && !below(dir, mounts) {
				bad("%s: the directory %s of %s is below none of its mounts, %s", w.Name, dir, name, mounts)
			}
		}
		return nil
	}
	return dirs
}
