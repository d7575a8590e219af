package simulation

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
	"kubevirt.io/hostpath-provisioner/controller/simulation/devices"
)

// The owners of marks, each before a name.
const (
	claimOwner = "claim "
	hostOwner  = "host "
	poolOwner  = "pool "
)

// rawEvent is an event of an agent.
type rawEvent struct{ uid, message string }

// rawPV is a PV of a raw disk.
type rawPV struct {
	name, path string
	node       *rawNode
	place      devices.Place // where the path led when the PV was made
	made       time.Time
	phase      corev1.PersistentVolumePhase
	since      time.Time // of the phase
	bound      time.Time // to the last claim
	claim      types.UID
	had        bool // a claim had it, and lost it
	mounted    bool // volume mode Filesystem
	deleted    bool // it ends
	forced     bool // by an administrator
	reused     bool // an administrator removed its claimRef
	partly     bool // a wipe was begun after its release
	seen       bool // the agent had a minute to read it before it was bound
	pod        bool // that uses it runs
	idle       bool // people ended the pod, and not the claim
	boots      int  // of the node when the pod started
}

// rawClaim is a claim that got a raw disk.
type rawClaim struct {
	uid    types.UID
	name   string
	disk   *devices.Disk // that its pod wrote to
	late   bool          // not at the start of the disk, where a probe reads
	asked  bool          // it was deleted
	forced bool          // so was its PV, by an administrator
}

// tookLong is the time after which an agent must know that the host took a disk.
const tookLong = 3 * rawEvery

// seen follows PVs and claims. The API server calls it for each write.
func (r *rawDisks) seen(x apiserver.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := types.UID(field(x.Old, "metadata", "uid"))
	switch {
	case x.Resource == "events" && strings.HasPrefix(x.Who, "disks/"):
		r.said = append(r.said, rawEvent{field(x.New, "involvedObject", "uid"), field(x.New, "message")})
	case x.Resource == "persistentvolumeclaims" && r.claims[uid] != nil:
		r.claims[uid].asked = x.New == nil || field(x.New, "metadata", "deletionTimestamp") != ""
	case x.Resource == "persistentvolumes" && x.Old == nil && strings.HasPrefix(x.Who, "disks/"):
		r.made(x)
	case x.Resource == "persistentvolumes" && r.pvs[uid] != nil && x.New == nil:
		v := r.pvs[uid]
		r.forced[v.place.Disk] = r.forced[v.place.Disk] || v.forced
		delete(r.pvs, uid)
	case x.Resource == "persistentvolumes" && r.pvs[uid] != nil:
		r.changed(r.pvs[uid], uid, x)
	}
}

// made notes a new PV.
func (r *rawDisks) made(x apiserver.Write) {
	node, _, _ := strings.Cut(strings.TrimPrefix(x.Who, "disks/"), "#")
	v := &rawPV{name: x.Name, path: field(x.New, "spec", "local", "path"), node: r.nodes[node], made: time.Now(),
		mounted: field(x.New, "spec", "volumeMode") == string(corev1.PersistentVolumeFilesystem)}
	v.place = v.node.Place(v.path)
	r.pvs[types.UID(field(x.New, "metadata", "uid"))] = v
	r.twice(v)
}

// changed notes a change of a PV, and judges it.
func (r *rawDisks) changed(v *rawPV, uid types.UID, x apiserver.Write) {
	phase := corev1.PersistentVolumePhase(field(x.New, "status", "phase"))
	ends := field(x.New, "metadata", "deletionTimestamp") != ""
	if of := types.UID(field(x.New, "spec", "claimRef", "uid")); of != v.claim {
		v.had = v.had || v.claim != ""
		v.claim, v.idle = of, false
	}
	c := r.claims[v.claim]
	if v.claim != "" && c == nil {
		c = &rawClaim{uid: v.claim, name: field(x.New, "spec", "claimRef", "name")}
		c.late = len(r.claims)%2 == 1
		r.claims[v.claim] = c
	}
	if ends && !v.deleted && !v.forced && phase == corev1.VolumeBound && c != nil && !c.asked {
		r.judge.blame("OWNED", "PV %s of claim %s, which lives, is deleted", v.name, c.name)
	}
	v.deleted = ends
	if phase != v.phase {
		v.seen = v.phase == corev1.VolumeAvailable && time.Since(v.since) > time.Minute && v.node.quiet(time.Minute) && v.place.Disk.Is(devices.Well)
		if v.since = time.Now(); phase == corev1.VolumeBound {
			v.bound = v.since
		}
		if v.phase = phase; phase == corev1.VolumeAvailable || phase == corev1.VolumeBound {
			r.twice(v)
		}
		if phase == corev1.VolumeBound && c != nil {
			r.ofAbsentNode(v, c)
		}
		if at, took := r.taken[v.place.Disk]; took && phase == corev1.VolumeBound && at.After(v.made) {
			r.given(v, uid, c, at)
		}
	}
}

// absentLong is the time after which the operator must have withdrawn the free disks of a Node that does
// not exist, also if it was restarted or could not reach the API server meanwhile.
const absentLong = 30 * time.Minute

// ofAbsentNode judges that a claim gets a disk of a node that is gone. The operator marks PVs as those
// of this cluster while their Node exists, and withdraws no others.
func (r *rawDisks) ofAbsentNode(v *rawPV, c *rawClaim) {
	n := r.node(v.node.Name)
	if n.absent.IsZero() || n.agent != nil || v.had || v.forced || n.absent.Sub(v.made) < 2*time.Minute {
		return
	}
	since := n.absent
	if n.ended.After(since) {
		since = n.ended
	}
	if gone := time.Since(since).Truncate(time.Second); gone > absentLong {
		r.judge.blame("ABSENT", "PV %s is given to claim %s, and %s has not existed for %s", v.name, c.name, n.name, gone)
	}
}

// given judges that a claim gets a disk that the host took.
func (r *rawDisks) given(v *rawPV, uid types.UID, c *rawClaim, at time.Time) {
	switch ago := time.Since(at).Truncate(time.Second); {
	case ago <= tookLong || !v.node.quiet(time.Minute):
		r.taken[v.place.Disk] = time.Time{} // no agent can know
	case !r.explained(string(uid)):
		r.judge.blame("TAKEN", "PV %s is given to claim %s, and the host took its disk %s ago", v.name, c.name, ago)
	}
}

// quiet reports whether the agent runs, and nothing changed for so long.
func (n *rawNode) quiet(d time.Duration) bool { return n.runs && time.Since(n.changed) > d }

// twice judges that no other PV is on the disk of one. That of a path which leads nowhere is withdrawn
// after a while: until then nothing can write by it.
func (r *rawDisks) twice(v *rawPV) {
	offered := func(v *rawPV) bool {
		return v.node.Place(v.path).Disk != nil && (v.phase == corev1.VolumeBound || !v.deleted && v.phase != corev1.VolumeReleased && v.phase != corev1.VolumeFailed)
	}
	for _, o := range r.pvs {
		if o != v && offered(o) && offered(v) && o.place.Overlaps(v.place) && !o.strayed() && !v.strayed() {
			how := ""
			if v.place.Disk.OfSlot() {
				how = "; its ID is that of the slot"
			}
			if v.place.Part > 0 || o.place.Part > 0 || v.place.Stacked || o.place.Stacked {
				how = ", by multipath, a partition or a logical volume"
			}
			r.judge.blame("TWICE", "PV %s (%s, %s on %s) and PV %s (%s, %s on %s) are one disk, %s%s",
				v.name, v.phase, v.path, v.node.Name, o.name, o.phase, o.path, o.node.Name, v.place.Disk.Name, how)
		}
	}
}

// strayed reports whether the PV's disk was plugged in elsewhere and cannot be recognized there: it has
// no ID. A person who then partitions it takes it for another.
func (v *rawPV) strayed() bool {
	return v.place.Disk.OfSlot() && v.node.Place(v.path).Disk != v.place.Disk
}

// wrote judges a write to a disk.
func (r *rawDisks) wrote(x devices.Write) {
	if !strings.HasPrefix(x.Who, "disks/") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	held, unseen := false, false // unseen: another node's host has it, and its agent took no Lease of it
	for _, o := range r.nodes {
		held = held || o.Held(x.Disk)
		unseen = unseen || o.Name != x.Node && o.Held(x.Disk) && (o.existing != "wipe" || !o.quiet(10*time.Minute))
	}
	n, at := r.nodes[x.Node], r.taken[x.Disk]
	refused := n.existing == "refuse" && time.Since(n.configured) > time.Minute && !at.IsZero()
	for _, v := range r.pvs {
		released := v.phase == corev1.VolumeReleased && v.place.Disk == x.Disk
		v.partly = v.partly || released
		refused = refused && (!released || v.bound.Sub(at) >= tookLong) // or the host wrote to the disk of a claim
	}
	for _, m := range x.Lost {
		c := r.claims[types.UID(strings.TrimPrefix(m.Owner, claimOwner))]
		switch {
		case c != nil && !c.asked && (held || !c.forced):
			how := ""
			switch {
			case c.forced:
				how = "; its PV was removed by force"
			case x.Disk.OfSlot():
				how = "; its ID is that of the slot"
			}
			r.judge.blame("DISKS", "%s wipes the disk of claim %s, which lives%s", x.Who, c.name, how)
		case c == nil && held && !unseen:
			r.judge.blame("DISKS", "%s wipes a disk in use, with the bytes of %s", x.Who, m.Owner)
		case strings.HasPrefix(m.Owner, poolOwner) && !r.forced[x.Disk]:
			r.judge.blame("DISKS", "%s wipes the disk of a pool", x.Who)
		case strings.HasPrefix(m.Owner, hostOwner) && refused:
			r.judge.blame("DISKS", "%s wipes the bytes of %s, and the ConfigMap has existing: refuse", x.Who, m.Owner)
		}
	}
}

// first judges what lies on a disk when a claim's pod first starts.
func (r *rawDisks) first(v *rawPV, c *rawClaim, at devices.Place) {
	if c.disk != nil || v.reused && (!v.partly || !v.seen) || !v.node.quiet(tookLong) && at.Disk != v.place.Disk {
		return // names swapped, and the agent has not withdrawn the PV yet
	}
	for _, m := range at.Disk.Marks() {
		o, inside := r.claims[types.UID(strings.TrimPrefix(m.Owner, claimOwner))], m.At >= at.From && m.At < at.From+at.Bytes
		if o != nil && o != c && inside {
			r.judge.blame("DISKS", "claim %s gets a disk with the bytes of claim %s", c.name, o.name)
		}
	}
}

// explained reports whether an event is about an object with one of the UIDs, or has one of the words.
func (r *rawDisks) explained(words ...string) bool {
	return slices.ContainsFunc(r.said, func(e rawEvent) bool {
		return slices.ContainsFunc(words, func(w string) bool { return e.uid == w || strings.Contains(e.message, w) })
	})
}

// offered judges, once nothing happened for an hour, that each empty disk is a PV or has an event,
// and that disks of claims that are gone are offered again or have one.
func (r *rawDisks) offered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		for _, p := range n.reports() {
			if at, did := r.obeyed[p.PV+" "+p.Confirm]; did && time.Since(at) > tookLong && n.quiet(tookLong) {
				r.judge.blame("ADVICE", "the state of PV %s asks for the annotation %s, which it got %s ago",
					p.PV, p.Confirm, time.Since(at).Truncate(time.Second))
			}
		}
		for at, d := range n.Attached() {
			paths := n.Paths(at)
			told := r.explained(paths...)
			for other, same := range n.Attached() { // one event is enough for a disk by two paths
				told = told || same == d && r.explained(n.Paths(other)...)
			}
			for _, v := range r.pvs {
				told = told || v.place.Disk == d
			}
			selected := slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, n.dir) })
			empty := len(d.Marks()) == 0 && !n.Held(d) && d.Is(devices.Well)
			if empty && selected && !told && n.existing != "none" && r.node(n.Name).absent.IsZero() && n.quiet(time.Hour) {
				r.judge.blame("SILENT", "the empty disk %s of %s is not offered for an hour, without an event", d.Name, n.Name)
			}
		}
	}
	for uid, v := range r.pvs {
		long := time.Since(v.since) > time.Hour && v.node.quiet(time.Hour)
		if v.phase == corev1.VolumeReleased && long && !r.explained(string(uid)) {
			r.judge.blame("STUCK", "PV %s is Released for an hour, without an event", v.name)
		}
	}
}
