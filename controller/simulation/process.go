package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/kube/classtest"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
)

// process is one life of a program.
type process struct {
	who    string // its name at the API server
	killed atomic.Bool
	cancel context.CancelFunc
	done   chan struct{} // closed when its parts have ended
	agent  *agent.Agent  // nil for other programs
	node   *node
	began  time.Time

	pod     string                 // the name of an installed agent's pod
	paths   map[string]string      // of the pools of an installed agent
	mounted func(dir string) error // nil asks the kernel

	steps  atomic.Int64 // changes to a disk so far
	stopAt atomic.Int64 // the step before which it is killed; 0 is none
}

// probe is the pause between probes of a pool. The product's two seconds would take half of the
// simulation's time.
const probe = time.Minute

// startAgent begins the next life of a node's agent, and makes its pod.
func (w *World) startAgent(n *node) {
	if i := w.inst.Load(); i != nil {
		i.power(n, true)
		return
	}
	if w.kind != ofAgents {
		return
	}
	n.lives++
	p := &process{who: fmt.Sprintf("agent/%s#%d", n.name, n.lives), done: make(chan struct{}), node: n}
	list := fmt.Sprintf(`--datadir=[{"name":"a","path":"%[1]s/a"},{"name":"b","path":"%[1]s/b"}]`, n.base)
	args := append([]string{"--node-name=" + n.name, "--provision=hostpath,csi", "--endpoint=unix:///simulated/csi.sock",
		"--namespace=" + namespace, "--publish-capacity=false", copyRate, list, "--pv-dir=" + n.base + "/hp"}, n.flags...)
	must(w.runAgent(p, args))
	n.agent, n.left = p, time.Time{}
	w.makePod(n)
}

// runAgent builds an agent with those arguments and runs it. An agent that ends by itself is
// started again ten seconds later, as the kubelet does.
func (w *World) runAgent(p *process, args []string) error {
	o, err := agent.Parse("simulated", args, &bytes.Buffer{})
	if err != nil {
		return err
	}
	life, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background().WithValues("process", p.who)))
	p.cancel, p.began = cancel, time.Now()
	w.faults.living.Store(p.who, p)
	if p.agent, err = agent.New(o, agent.Outside{Client: kubernetes.NewForConfigOrDie(w.API.Config(p.who)), Step: w.diskStep(p),
		Pod: p.pod, Probe: probe, Mounted: p.mounted, Figures: classtest.Roomy}); err != nil {
		return err
	}
	a, done := p.agent, p.done
	go func() {
		defer close(done)
		err := a.Serve(life)
		if err != nil && life.Err() == nil {
			w.judge.blame("ENDS", "%s ended by itself: %v", p.who, err)
		}
		a.Close()
	}()
	return nil
}

// makePod makes the pod of a node's agent, as its DaemonSet does. It is ready.
func (w *World) makePod(n *node) {
	pods := w.god.CoreV1().Pods(namespace)
	pod := must1(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-",
		Labels: map[string]string{"k8s-app": "hostpath-provisioner"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1",
			Kind: "DaemonSet", Name: "hostpath-provisioner", UID: "daemonset", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: n.name}}, metav1.CreateOptions{}))
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	must1(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}

// stopAgent cuts the agent from the API server at this moment, and ends it with its pod.
func (w *World) stopAgent(n *node) {
	if i := w.inst.Load(); i != nil {
		i.power(n, false)
		return
	}
	if n.agent == nil {
		return
	}
	w.kill(n.agent)
	n.agent, n.ended = nil, time.Now()
	pods := w.god.CoreV1().Pods(namespace)
	for _, pod := range must1(pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.name})).Items {
		must(pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	}
}

// kill ends a process: no request and no watch of it has an effect any more. It waits for its parts,
// unless one hangs before a change to a disk for ever.
func (w *World) kill(p *process) {
	p.killed.Store(true)
	w.faults.living.Delete(p.who)
	p.cancel()
	hangs := p.stopAt.Load() > 0
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		if p.node != nil && !hangs {
			w.judge.blame("ENDS", "%s does not end within a minute after SIGTERM", p.who)
		}
		hangs = true
	}
	if hangs && p.node != nil {
		w.movePools(p.node) // a part that hangs before a change may have the locks for ever
	}
}

// revive starts the agents again that were killed in the middle of something.
func (w *World) revive() {
	for _, n := range w.nodes {
		if n.agent != nil && n.agent.killed.Load() {
			w.say("                    %s was killed; the next life begins", n.agent.who)
			w.stopAgent(n)
			if n.absent.IsZero() {
				w.startAgent(n)
			}
		}
	}
}

// diskStep returns what an agent calls before each change to a disk. A process that is to be killed
// there hangs, and its pools are copied: the next life works on the copy, and what other goroutines
// of the dead process still write goes to a directory that has no name any more.
func (w *World) diskStep(p *process) func(string) {
	return func(string) {
		if at := p.stopAt.Load(); p.steps.Add(1) == at && at > 0 {
			p.killed.Store(true)
			w.movePools(p.node)
			sleep.Wake(w.died)
			select {}
		}
		if p.killed.Load() && p.stopAt.Load() > 0 {
			select {} // nothing more may happen
		}
	}
}

// movePools gives the node copies of its pools, at the same paths.
func (w *World) movePools(n *node) {
	n.copying.Lock()
	defer n.copying.Unlock()
	for _, e := range must1(os.ReadDir(n.base)) {
		if strings.Contains(e.Name(), ".") || e.Name() == "disks" {
			continue
		}
		at := filepath.Join(n.base, e.Name())
		former := fmt.Sprintf("%s.of-%d", at, n.lives)
		if _, err := os.Stat(former); err == nil {
			continue // twice in one life
		}
		must(os.Rename(at, former))
		if out, err := exec.Command("cp", "-a", former, at).CombinedOutput(); err != nil {
			panic(fmt.Sprintf("copy %s: %v: %s", former, err, out))
		}
	}
}

var errKilled = errors.New("killed")
