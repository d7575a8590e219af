package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// namespace has the agents and the operator.
const namespace = "hostpath-provisioner"

// World is one invented cluster. Its methods are called from one goroutine, that of the run.
type World struct {
	API *apiserver.Server
	god kubernetes.Interface // people, kubelets and the controller-manager
	rnd *rand.Rand           // nil if the steps are given in words

	kind  runKind
	base  string // the directory of the nodes' disks
	began time.Time
	nodes []*node
	judge *judge
	raw   *rawDisks

	faults    faults
	died      chan struct{} // has an element if a process was killed in the middle of something
	op        lostNodes
	inst      atomic.Pointer[installed] // nil until the operator installs the agents
	gone      string                    // the policy for lost nodes that most classes of a run have; "" for any
	exactly   bool                      // words are replayed, so that nothing is left to chance
	restored  bool                      // etcd was restored from a backup
	diskKinds []string                  // of a run's raw disks
	rested    bool                      // an hour without steps was judged
	saved     *saved                    // the last backup of etcd
	claims    int                       // claims and copies that were made
	trace     []string                  // what happened, with times, for people
}

// node is a machine. It exists also while its Node does not.
type node struct {
	name, base string
	uid        types.UID
	absent     time.Time            // since when there is no Node; zero while there is one
	was, back  time.Time            // since when there was none before its Node was made, and when that was
	ended      time.Time            // when its last agent ended
	left       time.Time            // when the pod of its agent was deleted, which does not end; zero if that was not
	renamed    bool                 // its hostname label was changed
	lost       bool                 // its Node was deleted, or its kubelet did not answer
	away       map[string]time.Time // by pool: since when its disk is away
	agent      *process             // nil while it does not run
	second     *process             // an agent of another form that was left running
	lives      int
	flags      []string // of its agent, beside the usual ones
	copying    sync.Mutex

	off     bool // its kubelet does not run, where the operator installs the agents
	retains bool // an agent was told to make PVs with the policy Retain
	mu      sync.Mutex
	mounts  map[string]diskMount // by path; guarded by mu
}

// pools of each node: two of CSI volumes, and the one of hostPath volumes.
var pools = []string{"a", "b", "hp"}

// policies of the class annotation for lost nodes. Each pool of CSI volumes has a class for each.
var policies = []string{"keep", "release", "delete"}

// build makes a cluster of that many nodes, whose agents and operator run, if the run needs them.
func (w *World) build(nodes int) {
	w.died = make(chan struct{}, 1)
	w.judge, w.raw = newJudge(w), newRawDisks(w)
	w.faults.lag = map[string]time.Duration{}
	w.API.Gate, w.API.Fault, w.API.Lag, w.API.Admit = w.gate, w.fault, w.late, w.admit
	w.API.Seen, w.API.Clock = w.seen, w.faults.clock
	w.god = kubernetes.NewForConfigOrDie(w.API.Config("god"))
	must1(w.god.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	w.makeTenant()
	must1(w.god.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: contract.CSIProvisioner},
		Spec: storagev1.CSIDriverSpec{AttachRequired: new(false), PodInfoOnMount: new(true), StorageCapacity: new(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}}}, metav1.CreateOptions{}))
	for _, pool := range pools[:2] {
		for _, policy := range policies {
			w.makeClass(pool+"-"+policy, contract.CSIProvisioner, map[string]string{contract.StoragePool: pool}, policy)
		}
	}
	w.makeClass("hp", contract.HostPathProvisioner, nil, "keep")
	for i := range nodes {
		n := &node{name: fmt.Sprintf("node-%02d", i+1), away: map[string]time.Time{}, mounts: map[string]diskMount{}}
		n.base = filepath.Join(w.base, n.name)
		for _, p := range pools {
			must(os.MkdirAll(filepath.Join(n.base, p), 0o755))
		}
		w.nodes = append(w.nodes, n)
		w.makeNode(n)
		if w.kind == ofAgents {
			w.startAgent(n)
		}
	}
	go w.controllerManager()
	if w.kind != ofInstalled {
		w.startLostNodes()
	}
}

// seen is called after each write.
func (w *World) seen(x apiserver.Write) {
	w.judge.seen(x)
	if i := w.inst.Load(); i != nil {
		i.seen(x)
	}
}

// ctx is that of requests of the world itself, which end with the bubble.
var ctx = context.Background()

func (w *World) makeClass(name, provisioner string, parameters map[string]string, gone string) {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	grow := true
	if provisioner == contract.CSIProvisioner {
		parameters = maps.Clone(parameters)
		parameters[contract.CopyParameter] = "allowed" // no filesystem of the machine need share blocks
	}
	must1(w.god.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Annotations: map[string]string{contract.AnnNodeGone: gone}},
		Provisioner: provisioner, Parameters: parameters, VolumeBindingMode: &wait, AllowVolumeExpansion: &grow,
	}, metav1.CreateOptions{}))
}

// makeNode registers the Node of a machine.
func (w *World) makeNode(n *node) {
	made := must1(w.god.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name,
		Labels: map[string]string{corev1.LabelHostname: "host-" + n.name, corev1.LabelOSStable: "linux", contract.TopologyNode: n.name}}}, metav1.CreateOptions{}))
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must1(w.god.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}))
	must1(w.god.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: contract.CSIProvisioner, NodeID: n.name,
			TopologyKeys: []string{contract.TopologyNode}}}}}, metav1.CreateOptions{}))
	n.uid, n.was, n.absent, n.back = made.UID, n.absent, time.Time{}, time.Now()
	w.judge.poke() // the scheduler asks for n.absent, and the writes may have woken it before
}

// deleteNode deletes the Node of a machine, and what Kubernetes collects with it.
func (w *World) deleteNode(n *node) {
	must(w.god.CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{}))
	must(w.god.StorageV1().CSINodes().Delete(ctx, n.name, metav1.DeleteOptions{}))
	n.absent, n.lost = time.Now(), true
}

// node returns the machine of that name, nil if there is none.
func (w *World) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// dir is where the bytes of a pool are, also while its disk is away.
func (n *node) dir(pool string) string {
	if _, away := n.away[pool]; away {
		return filepath.Join(n.base, pool+".away")
	}
	return filepath.Join(n.base, pool)
}

// say notes what happened.
func (w *World) say(format string, args ...any) {
	line := fmt.Sprintf("%10s  ", time.Since(w.began).Truncate(time.Second)) + fmt.Sprintf(format, args...)
	w.trace = append(w.trace, line)
	if os.Getenv("SIMULATE_LIVE") != "" {
		fmt.Println(line)
	}
}

func kernelNow() time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &ts)
	return time.Unix(ts.Sec, ts.Nsec)
}

// must panics: the world itself never fails, so an error is a defect of the simulation.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func must1[T any](v T, err error) T {
	must(err)
	return v
}
