package simulation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/disks"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/simulation/devices"
)

// rawDisks are the raw disks of the cluster, with their agents. A run without one has none of them.
type rawDisks struct {
	*World
	nodes map[string]*rawNode
	disks map[string]*devices.Disk

	mu     sync.Mutex // guards the rest; never held while anything waits
	pvs    map[types.UID]*rawPV
	claims map[types.UID]*rawClaim
	forced map[*devices.Disk]bool      // an administrator removed its PV, and no pool was made since
	taken  map[*devices.Disk]time.Time // when the host wrote to a disk; zero if a claim got it right after
	said   []rawEvent
	obeyed map[string]time.Time // when people confirmed disks, by PV and annotation
}

// rawNode is the disks of a node, and the agent that offers them.
type rawNode struct {
	*devices.Node
	agent   *process              // nil while it does not run
	opened  *devices.Process      // what the agent has of the disks
	reports func() []disks.Report // of the agent
	lives   int

	// What World.raw.mu guards.
	existing   string    // of its ConfigMap; none is no ConfigMap
	dir        string    // so is its directory, below /dev/disk
	configured time.Time // when that changed
	changed    time.Time // when a disk came or went, or the agent started
	runs       bool      // the agent
}

const (
	rawClass = "raw"
	// rawMiB is the size of a disk. A wipe of one takes some seconds.
	rawMiB = 64
	// rawEvery is the pause between passes of an agent.
	rawEvery = 5 * time.Minute
	// rawSlots is how many disks a node can have.
	rawSlots = 4
)

// rawKinds are the IDs of disks. Those that two nodes may reach are unique in the world.
var rawKinds = []string{"naa", "naa", "naa", "eui", "nguid", "uuid", "serial", "virtio", "none", "qemu", "qemu-eui",
	"vmware"}

var rawShared = []string{"naa", "eui", "nguid", "uuid"}

func newRawDisks(w *World) *rawDisks {
	return &rawDisks{World: w, nodes: map[string]*rawNode{}, disks: map[string]*devices.Disk{},
		pvs: map[types.UID]*rawPV{}, claims: map[types.UID]*rawClaim{}, taken: map[*devices.Disk]time.Time{}, forced: map[*devices.Disk]bool{}, obeyed: map[string]time.Time{}}
}

// disk returns the disk of a name such as naa/3, a new one if there is none. naa/3/32 has the ID of
// that, and 32 MiB. One that no other node may reach is the node's.
func (r *rawDisks) disk(node, name string) *devices.Disk {
	parts := append(strings.Split(name, "/"), fmt.Sprint(rawMiB))
	kind, n, size := parts[0], number(parts[min(1, len(parts)-1)]), number(parts[min(2, len(parts)-1)])
	if !slices.Contains(rawKinds, kind) || n < 1 || size < 1 {
		return nil
	}
	key := name
	if !slices.Contains(rawShared, kind) {
		key = node + "/" + name
	}
	if r.disks[key] == nil {
		r.disks[key] = devices.NewDisk(strings.ReplaceAll(name, "/", ""), kind, int(n), size<<20)
	}
	return r.disks[key]
}

// configure writes the ConfigMap of a node, and starts its agent anew.
func (r *rawDisks) configure(node, existing, dir, mode string) bool {
	known := slices.Contains([]string{"refuse", "wipe", "none"}, existing)
	if !known || !strings.HasPrefix(dir, "by-") || r.node(node) == nil {
		return false
	}
	n := r.nodes[node]
	if n == nil {
		n = &rawNode{Node: devices.NewNode(node, filepath.Join(r.base, node, "machine"), r.wrote)}
		if len(r.nodes) == 0 {
			go r.manage()
		}
	}
	r.mu.Lock()
	r.nodes[node], n.existing, n.dir, n.configured = n, existing, dir, time.Now()
	r.mu.Unlock()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "disks-" + node, Namespace: namespace},
		Data: map[string]string{"storageClassName": rawClass, "volumeMode": mode, "fsType": "ext4",
			"deviceDir": "/dev/disk/" + dir, "deviceNameFilter": ".", "existing": existing}}
	maps := r.god.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		must1(maps.Update(ctx, cm, metav1.UpdateOptions{}))
	}
	r.stop(n)
	r.start(n)
	return true
}

// start begins the next life of a node's agent.
func (r *rawDisks) start(n *rawNode) {
	n.lives++
	p := &process{who: fmt.Sprintf("disks/%s#%d", n.Name, n.lives), done: make(chan struct{})}
	life, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background().WithValues("process", p.who)))
	p.cancel = cancel
	r.faults.living.Store(p.who, p)
	client := kubernetes.NewForConfigOrDie(r.API.Config(p.who))
	n.agent, n.opened = p, n.Process(p.who)
	r.note(n)
	name := "disks-" + n.Name
	if n.existing == "none" {
		name = ""
	}
	c := disks.New(disks.Config{Client: client, Events: events.New(client, n.Name), Node: n.Name, Namespace: namespace,
		ConfigMap: name, Interval: rawEvery, Devices: n.opened})
	n.reports = c.Reports
	go func() {
		defer close(p.done)
		if err := c.Run(life); err != nil && life.Err() == nil {
			r.judge.blame("ENDS", "%s ended by itself: %v", p.who, err)
		}
	}()
}

// stop ends an agent at this moment: neither a request nor a write of it has an effect any more.
func (r *rawDisks) stop(n *rawNode) {
	if n.agent != nil {
		n.opened.Kill()
		r.kill(n.agent)
		n.agent = nil
		r.note(n)
	}
}

// note notes that something changed on a node.
func (r *rawDisks) note(n *rawNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.changed, n.runs = time.Now(), n.agent != nil
}

// places are the nodes and slots where a claim of that name has its disk, as far as it is known.
func (r *rawDisks) places(claim string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.pvs {
		if c := r.claims[v.claim]; c != nil && c.name == claim {
			all = append(all, v.node.Name, fmt.Sprintf("%s-%d", v.node.Name, v.place.Slot))
		}
	}
	return all
}

// revive starts the agents again that were killed in the middle of something.
func (r *rawDisks) revive() {
	for _, n := range r.nodes {
		if n.agent != nil && n.agent.killed.Load() {
			r.stop(n)
			r.start(n)
		}
	}
}

// end ends the faults of disks, and starts the agents that do not run.
func (r *rawDisks) end() {
	for _, d := range r.disks {
		d.Set(devices.Well)
	}
	for _, n := range r.nodes {
		if n.agent == nil {
			r.start(n)
		}
	}
}
