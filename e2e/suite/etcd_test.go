package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// etcdSet is the StatefulSet of docs/databases.md.
const etcdSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: etcd}
spec:
  serviceName: etcd
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: etcd}}
  template:
    metadata: {labels: {app: etcd}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: etcd}}}
      containers:
      - {name: etcd, image: registry.invalid/etcd, volumeMounts: [{name: data, mountPath: /var/lib/etcd}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: CLASS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 512Mi}}}
`

// etcdMembers are the pods of etcdSet.
var etcdMembers = []string{"etcd-0", "etcd-1", "etcd-2"}

// etcdScene has four nodes with agents, and three members of etcd. A goroutine stands in for the
// kubelets: it starts the process of each pod with its data in the pod's volume.
type etcdScene struct {
	*goneScene
	class, etcd, ctl, bin string
	nodes                 map[string]harness.Node
	agents                map[string]*harness.Agent // by node
	ports                 map[string][2]int         // by pod, for clients and for members
	keys                  int                       // that were confirmed

	mu        sync.Mutex
	state     string // of the cluster, for members that start
	down      map[string]bool
	processes map[types.UID]cluster.Process // by pod
}

// newEtcd creates the objects and starts the members.
func newEtcd(t *testing.T) *etcdScene {
	t.Helper()
	own, audit := audited(t)
	e := &etcdScene{goneScene: &goneScene{Scene: own.Scene(t), audit: audit, markers: new(int)}, state: "new",
		nodes: map[string]harness.Node{}, agents: map[string]*harness.Agent{}, ports: map[string][2]int{},
		down: map[string]bool{}, processes: map[types.UID]cluster.Process{}}
	var err error
	if e.ctl, err = cluster.BuildEtcdctl(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	e.etcd = e.Plane.Binaries().Path("etcd")
	ports, err := cluster.FreePorts(2*len(etcdMembers), false)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range etcdMembers {
		e.ports[name] = [2]int{ports[2*i], ports[2*i+1]}
	}
	e.operator = e.Operator()
	e.settings("1h")
	e.class = e.CSIClass("csi", func(c *storagev1.StorageClass) { c.Annotations = map[string]string{annNodeGone: "release"} })
	for _, suffix := range []string{"01", "02", "03", "04"} {
		node := e.Node(suffix)
		e.nodes[node.Name] = node
		e.agents[node.Name] = e.Agent(node, harness.Options{CSI: "csi", DataDir: harness.Datadir(harness.LocalPool, node.Pool)})
	}
	e.bin = e.kubectlOfPods()
	if _, err := e.Plane.Kubectl(strings.Replace(etcdSet, "CLASS", e.class, 1), "-n", e.Namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	e.kubelets()
	for _, name := range etcdMembers {
		e.Eventually(name+" ready", func() error { return e.isReady(name) })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = "existing"
	return e
}

// kubectlOfPods returns a directory with a kubectl of the namespace, whose exec runs etcdctl against
// the pod's member.
func (e *etcdScene) kubectlOfPods() (dir string) {
	e.Helper()
	dir = filepath.Dir(e.Path("kubectl", "kubectl"))
	script := "#!/bin/sh\nif [ \"$1\" != exec ]; then exec " + e.Plane.Binaries().Path("kubectl") + " -n " + e.Namespace + " \"$@\"; fi\n" +
		"export ETCDCTL_ENDPOINTS=$(cat " + dir + "/$2)\nshift 4\nexec " + e.ctl + " \"$@\"\n"
	err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o755)
	for _, name := range etcdMembers {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(e.url(name, 0)), 0o644))
	}
	if err != nil {
		e.Fatal(err)
	}
	return dir
}

// url returns the URL of a member: 0 for clients, 1 for members.
func (e *etcdScene) url(name string, port int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", e.ports[name][port])
}

// args are the arguments of a member with its data in dir, which listens at these URLs.
func (e *etcdScene) args(name, dir, state, clients, members string) []string {
	var all []string
	for _, other := range etcdMembers {
		all = append(all, other+"="+e.url(other, 1))
	}
	return []string{e.etcd, "--name=" + name, "--data-dir=" + filepath.Join(dir, "etcd"),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + e.url(name, 0),
		"--listen-peer-urls=" + members, "--initial-advertise-peer-urls=" + e.url(name, 1),
		"--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-state=" + state, "--initial-cluster-token=" + e.Name,
		"--heartbeat-interval=200", "--election-timeout=2000", // tests share the machine with many others
		"--log-level=warn", "--unsafe-no-fsync"} // no power is cut
}

// kubelets starts the process of each pod on a node that is not down, starts it again when it has
// ended, and sets the pod ready when its member is, until the test ends.
func (e *etcdScene) kubelets() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.Cleanup(func() {
		stop()
		<-done
		for _, p := range e.processes {
			if err := p.Stop(0); err != nil {
				e.Error(err)
			}
			if log, err := os.ReadFile(p.Log()); e.Failed() && err == nil {
				e.Logf("%s:\n%s", p.Title, log[max(0, len(log)-4000):])
			}
		}
	})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			list, err := e.Client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=etcd"})
			if err != nil {
				continue // the test has ended
			}
			for i := range list.Items {
				if err := e.run(ctx, &list.Items[i]); err != nil && ctx.Err() == nil {
					e.Logf("kubelet: %v", err) // or at the next pass
				}
			}
		}
	}()
}

// run has the process of a pod run. It does nothing for a pod without a node or a bound claim.
func (e *etcdScene) run(ctx context.Context, pod *corev1.Pod) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" || e.down[pod.Spec.NodeName] {
		return nil
	}
	claim, err := e.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, "data-"+pod.Name, metav1.GetOptions{})
	if err != nil || claim.Status.Phase != corev1.ClaimBound {
		return err
	}
	p, is := e.processes[pod.UID]
	if !is {
		p = cluster.Process{Title: pod.Name + " on " + pod.Spec.NodeName, Name: string(pod.UID), Dir: filepath.Dir(e.Path("etcd", "x"))}
		e.processes[pod.UID] = p
	}
	if _, alive := p.PID(); !alive {
		dir := filepath.Join(e.nodes[pod.Spec.NodeName].Pool, harness.PVName(claim))
		return p.Start(false, nil, e.args(pod.Name, dir, e.state, e.url(pod.Name, 0), e.url(pod.Name, 1))...)
	}
	if podReady(pod) || e.exec(pod.Name, "endpoint", "health") != nil {
		return nil
	}
	patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	_, err = e.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status")
	return err
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isReady returns nil if the pod of a member is ready.
func (e *etcdScene) isReady(name string) error {
	pod, err := e.Client.CoreV1().Pods(e.Namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err == nil && !podReady(pod) {
		err = e.NotYet(pod.UID, "it is %s on %q: %v", pod.Status.Phase, pod.Spec.NodeName, pod.Status.Conditions)
	}
	return err
}

// output runs etcdctl in the pod of a member.
func (e *etcdScene) output(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(e.Context(), e.ctl, append([]string{"--endpoints=" + e.url(name, 0)}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("etcdctl of %s: %s: %w\n%s", name, args, err, out)
	}
	return string(out), err
}

func (e *etcdScene) exec(name string, args ...string) error {
	_, err := e.output(name, args...)
	return err
}

func etcdKey(n int) string { return fmt.Sprintf("key-%03d", n) }

// write writes so many keys, each until it is confirmed by a quorum.
func (e *etcdScene) write(n int) {
	e.Helper()
	for range n {
		key := etcdKey(e.keys)
		e.Eventually("write "+key, func() error { return e.exec("etcd-0", "put", key, "value of "+key) })
		e.keys++
	}
}

// hasAll returns nil if the data of a member, which asks no other one, has every key that was
// confirmed.
func (e *etcdScene) hasAll(name string) error {
	var want strings.Builder
	for i := range e.keys {
		fmt.Fprintf(&want, "%s\nvalue of %[1]s\n", etcdKey(i))
	}
	out, err := e.output(name, "get", "key-", "--prefix", "--consistency=s")
	if err == nil && out != want.String() {
		err = fmt.Errorf("%s has %d lines instead of %d keys and values", name, strings.Count(out, "\n"), e.keys)
	}
	return err
}
