package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/volume/poolmount"
)

// container is what runs of a pod: an agent, or the command hold or unmount for a pool's disk.
type container struct {
	node   *node
	agent  *process // nil for the commands
	ready  atomic.Bool
	ending bool

	command, path string // path is that of the pool, on the machine
	owner         poolmount.Owner
	began         time.Time
}

const (
	// nodeLost is the time after which the controller-manager marks a Node whose kubelet is silent as
	// unknown, and deletes the pods of a Node that is absent.
	nodeLost = 40 * time.Second
	// probeEvery is the period of readiness probes, and of a command's attempts.
	probeEvery = 10 * time.Second
)

// power starts or stops the kubelet of a machine, with its containers. Mounts stay.
func (i *installed) power(n *node, on bool) {
	var ended []*process
	i.mu.Lock()
	n.off, n.lost = !on, n.lost || !on
	for uid, c := range i.running {
		if c.node == n && !on {
			if delete(i.running, uid); c.agent != nil {
				ended = append(ended, c.agent)
			}
			n.agent = nil
		}
	}
	i.mu.Unlock()
	for _, p := range ended {
		i.kill(p)
	}
	sleep.Wake(i.wake)
}

// kubelets takes the next steps of the pods that are on a node.
func (i *installed) kubelets(all *objects) {
	there := map[string]bool{}
	for k := range all.nodes.Items {
		o := &all.nodes.Items[k]
		there[o.Name] = true
		i.nodeStatus(all, o, i.node(o.Name).off)
	}
	exist := map[types.UID]bool{}
	for k := range all.pods.Items {
		pod := &all.pods.Items[k]
		exist[pod.UID] = true
		c, n := i.running[pod.UID], i.node(pod.Spec.NodeName)
		if !there[n.name] {
			i.remove(nodeLost, pod, client.GracePeriodSeconds(0))
		}
		switch {
		case n.off, pod.DeletionTimestamp == nil && contract.PodEnded(pod):
		case pod.DeletionTimestamp != nil:
			if i.ends(c, pod.UID) {
				i.remove(0, pod, client.GracePeriodSeconds(0), client.PropagationPolicy("Background"))
			}
		case c == nil:
			if contract.PodReady(pod) { // its container ended
				i.readyIf(pod, false)
			}
			i.steps.doAfter(2*time.Second, "start "+string(pod.UID), func() error { return i.start(pod, n) })
		case c.agent != nil:
			i.readyIf(pod, c.ready.Load())
		case c.command == "hold":
			i.hold(all, pod, c)
		case !i.jobless:
			i.release(pod, c)
		}
	}
	for uid, c := range i.running {
		if !exist[uid] { // deleted by force
			i.ends(c, uid)
		}
	}
}

// nodeStatus keeps the condition Ready of a Node, and that of its pods while it is unknown.
func (i *installed) nodeStatus(all *objects, o *corev1.Node, off bool) {
	if contract.NodeReady(o) == !off || len(o.Status.Conditions) == 0 { // makeNode writes the first
		return
	}
	after, status := time.Duration(0), corev1.ConditionTrue
	if off {
		after, status = nodeLost, corev1.ConditionUnknown
	}
	i.steps.doAfter(after, "ready "+o.Name+string(status), func() error {
		for k := range all.pods.Items {
			if pod := &all.pods.Items[k]; pod.Spec.NodeName == o.Name && off {
				i.readyIf(pod, false)
			}
		}
		o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}}
		return i.people.Status().Update(ctx, o)
	})
}

// readyIf writes the condition Ready of a pod if it changed.
func (i *installed) readyIf(pod *corev1.Pod, ready bool) {
	if contract.PodReady(pod) == ready && pod.Status.Phase == corev1.PodRunning {
		return
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status,
		LastTransitionTime: metav1.Now()}}}
	i.count(pod, nil, pod)
}

// start starts the container of a pod.
func (i *installed) start(pod *corev1.Pod, n *node) error {
	c := &container{node: n, began: time.Now()}
	i.running[pod.UID] = c
	if args := pod.Spec.Containers[0].Args; args[0] == "hold" || args[0] == "unmount" {
		value := func(flag string) string {
			at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, flag) })
			return strings.TrimPrefix(args[max(0, at)], flag)
		}
		c.command, c.path = args[0], filepath.Join(n.base, value("--path="))
		c.owner = poolmount.Owner{Pool: value("--pool="), Claim: value("--claim-uid=")}
		return nil
	}
	args, paths := agentArgs(pod, n)
	for _, v := range pod.Spec.Volumes {
		if h := v.HostPath; h != nil && ptr.Deref(h.Type, "") == corev1.HostPathDirectoryOrCreate {
			if first, rest, _ := strings.Cut(strings.TrimPrefix(h.Path, "/"), "/"); len(first) < 4 && rest == "" || rest == "csi" {
				must(os.MkdirAll(filepath.Join(n.base, h.Path), 0o755))
			}
		}
	}
	n.lives++
	n.retains = slices.Contains(args, "--reclaim-policy=Retain") || n.retains && i.retains
	c.agent = &process{who: fmt.Sprintf("agent/%s#%d", n.name, n.lives), done: make(chan struct{}), node: n, pod: pod.Name, paths: paths, mounted: n.mounted}
	n.agent, n.left, n.flags = c.agent, time.Time{}, args
	if err := i.runAgent(c.agent, args); err != nil { // the kubelet tries again
		delete(i.running, pod.UID)
		n.agent = nil
		return nil
	}
	go func() { // the readiness probe
		for ended := false; !ended; {
			select {
			case <-c.agent.done:
				ended = true
			case <-time.After(probeEvery):
			}
			if ready := !ended && c.agent.agent.Serves() == nil; c.ready.Swap(ready) != ready {
				sleep.Wake(i.wake)
			}
		}
		if i.mu.Lock(); i.running[pod.UID] == c && !c.ending { // it ended by itself
			delete(i.running, pod.UID)
		}
		i.mu.Unlock()
	}()
	return nil
}

// agentArgs returns the arguments and variables of an agent's container as arguments, with the host's
// paths below the node's directory. paths are those of its pools.
func agentArgs(pod *corev1.Pod, n *node) (args []string, paths map[string]string) {
	flags := map[string]string{}
	for _, section := range settings.Agent("") {
		for _, s := range section.Settings {
			flags[s.Variable()] = s.Flag
		}
	}
	paths = map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		value := v.Value
		switch {
		case v.ValueFrom != nil:
			value = map[string]string{"spec.nodeName": n.name, "metadata.namespace": pod.Namespace}[v.ValueFrom.FieldRef.FieldPath]
		case v.Name == "DATADIR":
			value = strings.ReplaceAll(value, `":"/`, `":"`+n.base+`/`)
			var pools []struct{ Name, Path string }
			_ = json.Unmarshal([]byte(value), &pools) // the agent says what is wrong
			for _, p := range pools {
				paths[p.Name] = p.Path
			}
		case v.Name == "PV_DIR" && filepath.IsAbs(value):
			value = n.base + value
		}
		if flag := flags[v.Name]; flag != "" && value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	for _, a := range pod.Spec.Containers[0].Args {
		if !strings.HasPrefix(a, "--kubelet-registration-path=") { // nothing registers a driver here
			args = append(args, a)
		}
	}
	return args, paths
}

// ends ends a container, and reports whether it is gone. Mounts stay.
func (i *installed) ends(c *container, pod types.UID) bool {
	if c == nil || c.agent == nil {
		delete(i.running, pod)
		return true
	}
	switch {
	case c.ending:
	case i.hangs[c.node.name]:
		if c.node.left.IsZero() {
			c.node.left = time.Now()
		}
	default:
		c.ending = true
		go func() {
			c.agent.cancel()
			select {
			case <-c.agent.done:
			case <-time.After(10 * time.Second): // SIGKILL
			}
			i.kill(c.agent)
			i.mu.Lock()
			defer i.mu.Unlock()
			if delete(i.running, pod); c.node.agent == c.agent {
				c.node.agent = nil
			}
			sleep.Wake(i.wake)
		}()
	}
	return false
}

// hold does what a holder's pod does once the kubelet has mounted its claim.
func (i *installed) hold(all *objects, pod *corev1.Pod, c *container) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := all.claim(pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		if claim == nil || claim.Status.Phase != corev1.ClaimBound {
			return
		}
		err := c.node.attach(claim.Spec.VolumeName, c.path, c.owner)
		if i.readyIf(pod, err == nil); err != nil {
			i.steps.doAfter(probeEvery, "hold "+string(pod.UID), func() error { return nil })
		}
	}
}

// release does what the pod of a Job does that unmounts a disk.
func (i *installed) release(pod *corev1.Pod, c *container) {
	err := i.detach(c)
	switch {
	case err == nil:
		pod.Status.Phase = corev1.PodSucceeded
	case errors.Is(err, errOther) || time.Since(c.began) > time.Minute:
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: err.Error()}}}}
	default:
		i.steps.doAfter(probeEvery, "unmount "+string(pod.UID), func() error { return nil })
		return
	}
	i.count(pod, nil, pod)
}
