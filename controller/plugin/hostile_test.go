package plugin_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	scene "kubevirt.io/hostpath-provisioner/controller/plugin/plugintest"
)

// hostile has what a terminal obeys: a title, C1, DEL, the direction of a text, a tag, and a broken rune.
const hostile = "x\x1b]0;y\x07\u009b2J\x7f\u202e\u2066\ufeff\U000e0041\xff\r\nkubectl-hpp: ok"

// poison appends it to each string of a value, at any depth.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(v.String() + hostile)
		}
	case reflect.Pointer:
		if v.IsNil() && v.CanSet() && v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			poison(v.Field(i))
		}
	case reflect.Slice:
		if v.Len() == 0 && v.CanSet() && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			poison(v.Index(i))
		}
	}
}

// Whatever an agent prints and an object has, no command prints what a terminal obeys, in any format, and
// JSON and YAML are valid.
func TestNothingControlsTheTerminal(t *testing.T) {
	c := partly()
	for _, reports := range c.Pools {
		poison(reflect.ValueOf(&reports).Elem())
	}
	orphans, devices := make([]agents.Orphan, 1), make([]agents.Device, 1)
	poison(reflect.ValueOf(&orphans).Elem())
	poison(reflect.ValueOf(&devices).Elem())
	c.Prints = map[string]scene.Answer{"agent-node-01 orphans": scene.JSON(orphans), "disks-node-01 disks": scene.JSON(devices),
		"agent-node-02 inspect": {Out: scene.JSON(c.Pools["node-02"]...).Out, Err: hostile, Code: 1}, "agent-node-03 inspect": {Unreachable: hostile}}
	for _, of := range [][2]string{{"PersistentVolumeClaim", "new"}, {"PersistentVolume", "pvc-1"}, {"Node", "node-01"}} {
		c.Event(of[0], of[1], "PoolNotReady", hostile)
	}
	c.Class("local").Parameters = map[string]string{hostile: hostile}
	c.Claim("new").Annotations["volume.kubernetes.io/selected-node"] = hostile
	c.Claim("data").Finalizers = []string{hostile}
	c.Node("node-02").Annotations = map[string]string{"local-pv-provisioner.cybozu.io/pv-spec-configmap": hostile}
	c.Node("node-02").Spec.Taints = []corev1.Taint{{Key: hostile, Value: hostile, Effect: corev1.TaintEffectNoSchedule}}
	c.PV("pvc-7").Spec.HostPath.Path = "/" + hostile
	c.Pod("web-0").Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: hostile}}
	c.Agent("node-02").Spec.Containers[0].Image = hostile
	scene.Get[storagev1.CSIDriver](c, "kubevirt.io.hostpath-provisioner").Labels = map[string]string{"a": hostile}
	c.Metrics["agent-node-01"] += "# HELP " + hostile + "\n"
	kubeconfig := c.Start(t)
	calls := append([]struct{ call, formats string }{{"report --force -f " + filepath.Join(t.TempDir(), "r.zip"), "table"}, {"explain " + "no-such", "table"}}, commands...)
	for _, command := range calls {
		for format := range strings.FieldsSeq(command.formats) {
			_, out, errOut := call(t.Context(), append(strings.Fields(command.call), "-o", format, "--kubeconfig", kubeconfig)...)
			if i := strings.IndexFunc(out+errOut, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }); i >= 0 {
				t.Errorf("%s -o %s prints %.80q", command.call, format, (out + errOut)[max(0, i-20):])
			}
			if strings.Contains("\n"+out+errOut, "\nkubectl-hpp: ok") {
				t.Errorf("%s -o %s has a line of the agent's", command.call, format)
			}
			var value any
			if format == "json" && json.Unmarshal([]byte(out), &value) != nil || format == "yaml" && yaml.Unmarshal([]byte(out), &value) != nil {
				t.Errorf("%s -o %s is none: %.200s", command.call, format, out)
			}
		}
	}
}
