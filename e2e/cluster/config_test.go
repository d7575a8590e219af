package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestKubeletConfig(t *testing.T) {
	n := newNode(1, nodeState{Name: "node-02", Hostname: "node-02"}, "/state", nil)
	for _, want := range []string{"address: 10.97.0.12\n", "cgroupRoot: /hpp-e2e/node-02 ", "evictionHard: {nodefs.available: 0%}"} {
		if got := kubeletConfig(n, 34); !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	for minor, want := range map[int]bool{30: false, 31: true, 37: true} {
		if got := strings.Contains(kubeletConfig(n, minor), "failCgroupV1"); got != want {
			t.Errorf("kubelet 1.%d: failCgroupV1 said: %v, want %v", minor, got, want)
		}
	}
}

func TestContainerdConfig(t *testing.T) {
	got := containerdConfig("overlayfs", "/plugins")
	for _, want := range []string{"restrict_oom_score_adj = true", `snapshotter = "overlayfs"`, `bin_dir = "/plugins"`, PauseImage} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestCNIConfigs(t *testing.T) {
	seen := map[string]bool{}
	for i := range MaxNodes {
		text := cniConfig(i)
		if !json.Valid([]byte(text)) {
			t.Errorf("not JSON:\n%s", text)
		}
		seen[text] = true
	}
	if len(seen) != MaxNodes {
		t.Error("two nodes have the same bridge and subnet")
	}
}

func TestControllers(t *testing.T) {
	for kubelets, want := range map[bool]string{true: "--controllers=*", false: "--controllers=*,-node-lifecycle-controller"} {
		if got := (settings{Kubelets: kubelets}).args("kube-controller-manager"); !slices.Contains(got, want) {
			t.Errorf("kubelets %v: no %q in %q", kubelets, want, got)
		}
	}
}

func TestHandmadeNode(t *testing.T) {
	node := handmadeNode("a", "", map[string]string{"zone": "z"})
	if node.Labels[corev1.LabelHostname] != "a" || node.Labels["zone"] != "z" {
		t.Errorf("labels %v", node.Labels)
	}
	if label := handmadeNode("a", "b", nil).Labels[corev1.LabelHostname]; label != "b" {
		t.Errorf("hostname label %q, want b", label)
	}
	if err := takesPods(node); err != nil {
		t.Error(err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: "full", Effect: corev1.TaintEffectNoSchedule}}
	if takesPods(node) == nil {
		t.Error("a tainted node takes pods")
	}
	if takesPods(&corev1.Node{}) == nil {
		t.Error("a node without conditions takes pods")
	}
}

func TestUpOptions(t *testing.T) {
	o := UpOptions{}
	if err := o.complete(); err != nil || o.Nodes != 1 || o.Version != DefaultVersion || o.StateDir == "" {
		t.Errorf("defaults: %+v, %v", o, err)
	}
	for name, spoil := range map[string]func(*UpOptions){
		"too many nodes":                func(o *UpOptions) { o.Nodes = MaxNodes + 1 },
		"negative nodes":                func(o *UpOptions) { o.Nodes = -1 },
		"label of a node that is not":   func(o *UpOptions) { o.Hostnames = map[string]string{"node-02": "x"} },
		"label of a node of other name": func(o *UpOptions) { o.Hostnames = map[string]string{"worker": "x"} },
	} {
		bad := o
		spoil(&bad)
		if bad.complete() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
