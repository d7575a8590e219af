package cluster

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/kube/apitest"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// agentPod is a pod of the agent with these arguments and variables.
func agentPod(args []string, env ...string) *corev1.Pod {
	c := corev1.Container{Name: "hostpath-provisioner", Image: "hpp:v1", Args: args}
	for i := 0; i+1 < len(env); i += 2 {
		c.Env = append(c.Env, corev1.EnvVar{Name: env[i], Value: env[i+1]})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpp", Name: "agent-x", Labels: map[string]string{"k8s-app": "hostpath-provisioner-csi"},
			Annotations:     map[string]string{contract.AnnAgent: "true"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}},
		Spec:   corev1.PodSpec{NodeName: "node-01", ServiceAccountName: "account", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}, Containers: []corev1.Container{{Name: "sidecar"}, c}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func TestProvisionersOf(t *testing.T) {
	const own, driver, localPath = contract.HostPathProvisioner, contract.CSIProvisioner, contract.LocalPathProvisioner
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"hostPath by default":       {agentPod(nil, "PV_DIR", "/x"), []string{own}},
		"csi":                       {agentPod([]string{"--endpoint=unix:///csi/csi.sock"}, "PROVISION", "csi"), []string{driver}},
		"both":                      {agentPod(nil, "PROVISION", "hostpath,csi"), []string{own, driver}},
		"the sidecar provisions":    {agentPod([]string{"--endpoint", "unix:///csi/csi.sock"}), []string{driver}},
		"another name":              {agentPod([]string{"--drivername=local.csi"}, "PROVISION", "csi"), []string{"local.csi"}},
		"a flag before a variable":  {agentPod([]string{"--provision", "csi"}, "PROVISION", "hostpath"), []string{driver}},
		"compat alone":              {agentPod(nil, "COMPAT", "local-path"), []string{localPath}},
		"compat besides":            {agentPod(nil, "PROVISION", "csi", "COMPAT", "local-path"), []string{driver, localPath}},
		"an agent of raw disks":     {agentPod([]string{"disks"}), nil},
		"an unknown form of compat": {agentPod(nil, "PROVISION", "csi", "COMPAT", "x"), []string{driver}},
	} {
		a := agentOf(row.pod)
		if !slices.Equal(a.Provisioners, row.want) || !a.Ready || a.Why != "" || a.Node != "node-01" || a.Container != "hostpath-provisioner" || a.Image != "hpp:v1" {
			t.Errorf("%s: %+v, want %q", name, a, row.want)
		}
		if disks := name == "an agent of raw disks"; (a.Process == DiskAgent) != disks {
			t.Errorf("%s: process %s", name, a.Process)
		}
	}
}

func TestWhyNotReady(t *testing.T) {
	state := func(s corev1.ContainerStatus) corev1.PodStatus {
		s.Name = "c"
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{s}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}}
	for want, status := range map[string]corev1.PodStatus{
		"container c: CrashLoopBackOff: back-off": state(corev1.ContainerStatus{State: waiting}),
		"container c: CrashLoopBackOff; it ended with: PV_DIR is not set": state(corev1.ContainerStatus{State: waiting,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "PV_DIR is not set\n"}}}),
		"container c ended with code 1: hostpath-provisioner: bad flag": state(corev1.ContainerStatus{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "I1129 19:38:45.353817       1 agent.go:128] \"Starting\" node=\"a\"\nhostpath-provisioner: bad flag\n"}}}),
		"container c ended with code 2: E1129 19:38:45.353817       1 x.go:1] a": state(corev1.ContainerStatus{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "E1129 19:38:45.353817       1 x.go:1] a\n"}}}),
		"container c ended with code 2: panic: x\ngoroutine 1": state(corev1.ContainerStatus{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "panic: x\ngoroutine 1\n"}}}),
		"container c ended with code 2: bad":       state(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Message: "bad"}}}),
		"the readiness check of container c fails": state(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}),
		"it is not scheduled: quota":               {Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "quota"}}},
		"it has not started yet":                   {},
	} {
		if got := whyNotReady(&corev1.Pod{Status: status}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := whyNotReady(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}); got != "it is being deleted" {
		t.Errorf("a deleted pod: %q", got)
	}
}

// A list that may not be read, or cannot be, is unknown with the reason: also where a proxy, or a
// server that is none of Kubernetes, answers that there is no such path.
func TestUnknown(t *testing.T) {
	client := fake.NewClientset(agentPod(nil), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-01"}})
	apitest.Listing(client)
	r := Reader{Client: client}
	if nodes, agents := r.Nodes(t.Context()), r.Agents(t.Context()); !nodes.Known() || len(nodes.Items) != 1 || len(agents.Items) != 1 {
		t.Errorf("nodes %+v, agents %+v", nodes, agents)
	}
	if class := r.Class(t.Context(), "none"); !class.Absent() {
		t.Errorf("a class that does not exist: %+v", class)
	}
	var answer error
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, answer })
	for _, row := range []struct {
		err       error
		list, get string
	}{
		{apierrors.NewForbidden(corev1.Resource("nodes"), "", nil), "may not list nodes", "may not get storageclasses"},
		{apierrors.NewUnauthorized("no token"), "cannot list nodes: the API server does not accept the login", "cannot get storageclasses: the API server does not accept the login"},
		{apierrors.NewGenericServerResponse(http.StatusNotFound, "list", corev1.Resource("nodes"), "", "page not found", 0, true), "cannot list nodes: the server could not find", "cannot get storageclasses: the server could not find"},
		{apierrors.NewInternalError(http.ErrHandlerTimeout), "cannot list nodes: Internal error", "cannot get storageclasses: Internal error"},
	} {
		answer = row.err
		if nodes := r.Nodes(t.Context()); nodes.Known() || !strings.HasPrefix(nodes.Unknown, row.list) || len(nodes.Items) > 0 {
			t.Errorf("%v: nodes %+v", row.err, nodes)
		}
		if class := r.Class(t.Context(), "x"); class.Absent() || !strings.HasPrefix(class.Unknown, row.get) {
			t.Errorf("%v: class %+v", row.err, class)
		}
		if agents := r.Agents(t.Context()); agents.Known() {
			t.Errorf("%v: agents %+v", row.err, agents)
		}
	}
}

// Commands are run in pods with the mark and a directory of the node alone. The project before has the same
// label, name of the container and path of the program, which knows no commands: each would start a second
// provisioner. A tenant may give a pod the mark, and an owner.
func TestNoCommandsWithoutTheMark(t *testing.T) {
	for name, edit := range map[string]func(p *corev1.Pod){
		"":             func(*corev1.Pod) {},
		"no mark":      func(p *corev1.Pod) { p.Annotations = nil },
		"no directory": func(p *corev1.Pod) { p.Spec.Volumes = nil },
		"neither":      func(p *corev1.Pod) { p.Annotations, p.Spec.Volumes = nil, nil },
		"a memory's one": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		},
	} {
		pod := agentPod(nil, "PV_DIR", "/var/hpvolumes")
		edit(pod)
		a := agentOf(pod)
		if runs := name == ""; (a.Container == "hostpath-provisioner") != runs || (a.Container == "") == runs || (a.Unmarked == "") != runs {
			t.Errorf("%s: container %q, %q", name, a.Container, a.Unmarked)
		}
		if tenants := !ofNode(&pod.Spec); tenants && !strings.Contains(Reader{}.Metrics(t.Context(), a).Unknown, rootless) {
			t.Errorf("%s: the metrics of a tenant's pod are read", name)
		}
		if a.Image != "hpp:v1" || !a.Ready || !a.Serves(contract.HostPathProvisioner) {
			t.Errorf("%s: what its object has is not read: %+v", name, a)
		}
	}
}

// Pods that end, and those that no DaemonSet made, are no agents. Others are listed by their nodes.
func TestAgents(t *testing.T) {
	var all []runtime.Object
	for i, edit := range []func(p *corev1.Pod){
		func(p *corev1.Pod) { p.Spec.NodeName = "node-02" },
		func(p *corev1.Pod) {},
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		func(p *corev1.Pod) { p.OwnerReferences = nil },
		func(p *corev1.Pod) { p.Labels["k8s-app"] = "hostpath-provisioner-operator" },
	} {
		pod := agentPod(nil)
		pod.Name = string(rune('a' + i))
		edit(pod)
		all = append(all, pod)
	}
	agents := Reader{Client: fake.NewClientset(all...)}.Agents(t.Context())
	if len(agents.Items) != 2 || agents.Items[0].Pod != "b" || agents.Items[1].Pod != "a" {
		t.Errorf("%+v", agents)
	}
}

// The events of an object of that name which was deleted are not those of the object, and a Node's
// name counts as its UID.
func TestEventsOf(t *testing.T) {
	client := fake.NewClientset()
	for name, of := range map[string]struct {
		uid types.UID
		at  int64
	}{"a": {"u1", 1}, "b": {"n", 3}, "c": {"old", 2}} {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, LastTimestamp: metav1.Unix(of.at, 0),
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n", UID: of.uid}}
		if _, err := client.CoreV1().Events("default").Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	found := Reader{Client: client}.EventsOf(t.Context(), "Node", "", "n", "u1")
	if len(found.Items) != 2 || found.Items[0].Name != "b" || found.Items[1].Name != "a" {
		t.Errorf("%+v", found)
	}
}
