package nodes

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	csiPool = "/var/hpvolumes/csi"
	mib     = int64(1) << 20
	// allocated is what the claims of these tests ask for. What is written before the kernel says
	// no is less by what btrfs sets aside for its own: almostAll is surely there.
	allocated, almostAll = 64 * mib, 56 * mib
)

// The driver on two nodes, one with a btrfs for its volumes that holds them to their size, and one
// with an ext4 that does not. The kernel counts for real: pods write until they may not.
func TestLimits(t *testing.T) {
	s := &harness.Scene{TB: t, Env: env}
	disks := []*disk{newDisk(s, one, "btrfs", csiPool, 1<<30), newDisk(s, other, "ext4", csiPool, 1<<30)}
	t.Cleanup(func() {
		for _, d := range disks {
			d.detach(s)
		}
		undeployCSI(t)
	})
	for _, d := range disks {
		_, err := onNode(d.node, "mkdir", "-p", d.at)
		must(s, "make directory", err)
		must(s, "mount", d.mount())
	}
	f := csiAlone
	f.apply = []string{"-k", filepath.Join("testdata", "quotas")}
	f.deploy(t)
	for _, n := range local.Nodes() {
		awaitDriver(s, n)
	}
	csiTogether(t, "Group", map[string]csiRow{
		"holds": limitHolds, "stats": limitStats, "grows": limitGrows, "required": limitRequired, "told": limitTold,
	})
	t.Run("permitted", f.permitted)
}

// detach takes the disk away from under the driver, which is to be deleted.
func (d *disk) detach(s *harness.Scene) {
	s.Helper()
	if !d.mounted {
		return
	}
	if _, err := onNode(d.node, "umount", "-l", d.at); err != nil {
		s.Error(err)
		return
	}
	d.mounted = false
}

// greedy is a script that writes more than was allocated, and says what came of it.
const greedy = "dd if=/dev/zero of=/data/big bs=1M count=100 2>&1; sync; stat -c 'size %s' /data/big"

func limitClaim(s *harness.Scene) *corev1.PersistentVolumeClaim {
	s.Helper()
	return s.Create(harness.Claim{Class: csiClass, Size: strconv.FormatInt(allocated, 10)})
}

// wantRefused checks that the kernel ended a greedy script's writing where the quota ends.
func wantRefused(s *harness.Scene, said string) {
	s.Helper()
	_, after, _ := strings.Cut(said, "\nsize ")
	size, err := strconv.ParseInt(strings.TrimSpace(after), 10, 64)
	if err != nil || !strings.Contains(said, "uota exceeded") || size < almostAll || size > allocated {
		s.Errorf("the pod was allocated %d bytes and says:\n%s", allocated, said)
	}
}

// inPod runs a script in the pod, and returns all that it says.
func inPod(p *corev1.Pod, script string) (string, error) {
	return kubectl("", "-n", p.Namespace, "exec", p.Name, "--", "sh", "-c", "exec 2>&1; "+script)
}

// A pod that writes past its claim gets an error, and can write again once it has removed
// something. Its neighbour on the disk notices nothing.
func limitHolds(t *testing.T, s *harness.Scene) {
	neighbour := pod{claim: limitClaim(s).Name, hostname: one.Hostname, script: ticking}.run(s)
	claim := limitClaim(s)
	full := pod{claim: claim.Name, hostname: one.Hostname, script: greedy}.run(s)
	wantRefused(s, output(s, full))
	if said, err := inPod(neighbour, "rm /data/clock && sleep 1 && cat /data/clock && dd if=/dev/zero of=/data/mine bs=1M count=32 conv=fsync"); err != nil {
		t.Errorf("the neighbour cannot write: %v\n%s", err, said)
	}
	v := volumeOf(inspectIn(s, awaitDriver(s, one)), harness.PVName(claim))
	if v == nil || v.Quota != allocated || v.Used < almostAll || v.Used > allocated {
		t.Errorf("inspect says %+v, want a quota of %d, and most of it used", v, allocated)
	}
	said, err := inPod(full, "rm /data/big && sync && dd if=/dev/zero of=/data/next bs=1M count=32 conv=fsync")
	if err != nil {
		t.Errorf("the pod removed what it had, and cannot write: %v\n%s", err, said)
	}
}

// The kubelet, and so everybody who reads its metrics, knows what the volume may hold, and not what
// the disk has.
func limitStats(_ *testing.T, s *harness.Scene) {
	claim := limitClaim(s)
	pod{claim: claim.Name, hostname: one.Hostname, script: greedy}.run(s)
	s.Eventually("stats", func() error { // the kubelet looks once a minute
		v, err := statsOf(s, one, claim)
		if err == nil && (v.CapacityBytes != allocated || v.UsedBytes < almostAll || v.UsedBytes > allocated || v.AvailableBytes != allocated-v.UsedBytes) {
			err = fmt.Errorf("%+v, want a capacity of %d and most of it used", v, allocated)
		}
		return err
	})
}

// volumeStats are what the kubelet says of a volume.
type volumeStats struct {
	PVCRef                                   struct{ Namespace, Name string }
	CapacityBytes, UsedBytes, AvailableBytes int64
}

// statsOf asks the node's kubelet for what it knows of the claim's volume.
func statsOf(s *harness.Scene, n *cluster.Node, claim *corev1.PersistentVolumeClaim) (v volumeStats, err error) {
	var summary struct {
		Pods []struct{ Volume []volumeStats }
	}
	text, err := s.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + n.Name + "/proxy/stats/summary").DoRaw(s.Context())
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &summary); err != nil {
		return v, err
	}
	for _, p := range summary.Pods {
		for _, v := range p.Volume {
			if v.PVCRef.Namespace == claim.Namespace && v.PVCRef.Name == claim.Name {
				return v, nil
			}
		}
	}
	return v, fmt.Errorf("the kubelet of %s has no stats of claim %s", n.Name, claim.Name)
}

// A claim asks for more, and the pod that had met its limit goes on, as it is.
func limitGrows(t *testing.T, s *harness.Scene) {
	claim := limitClaim(s)
	p := pod{claim: claim.Name, hostname: one.Hostname, script: greedy}.run(s)
	wantRefused(s, output(s, p))
	const more = "dd if=/dev/zero of=/data/more bs=1M count=48 conv=fsync"
	if said, err := inPod(p, more); err == nil {
		t.Errorf("the pod is at its limit and wrote more: %s", said)
	}
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, 2*allocated)
	_, err := kubectl("", "-n", s.Namespace, "patch", "pvc", claim.Name, "-p", patch)
	must(s, "ask for more", err)
	s.Eventually("the claim has it", func() error {
		if has := s.Read(claim).Status.Capacity[corev1.ResourceStorage]; has.Cmp(*resource.NewQuantity(2*allocated, resource.BinarySI)) != 0 {
			return fmt.Errorf("it has %s; its events: %v", has.String(), s.Events(claim.UID))
		}
		return nil
	})
	if said, err := inPod(p, more); err != nil {
		t.Errorf("the volume has grown, and the pod cannot write: %v\n%s", err, said)
	}
	now, err := s.Client.CoreV1().Pods(p.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
	if err != nil || now.UID != p.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod did not run on: %+v, %v", now.Status, err)
	}
}

// A class that requires limits is served where they are, and nowhere else: the scheduler knows, and
// who chose the node all the same is told why not.
func limitRequired(t *testing.T, s *harness.Scene) {
	class := s.CSIClass("required", func(c *storagev1.StorageClass) { c.Parameters["quota"] = "required" })
	t.Cleanup(func() {
		if _, err := kubectl("", "delete", "storageclass", class); err != nil {
			t.Error(err)
		}
	})
	create := func(selected string) *corev1.PersistentVolumeClaim {
		return s.Create(harness.Claim{Class: class, Size: "64Mi", Selected: selected})
	}
	begin := time.Now()
	why := inspectIn(s, awaitDriver(s, other)).Pool.NoQuotas
	chosen, stays := create(other.Name), create("")
	for _, words := range []string{other.Name + " cannot hold a volume in pool local to its size, which the class requires", why} {
		s.Eventually("word to the claim", func() error {
			return said(s, "involvedObject.name", chosen.Name, harness.ReasonFailed, words, begin)
		})
	}
	waits := pod{claim: stays.Name, hostname: other.Hostname}.create(s)
	s.Eventually("the scheduler's word", func() error {
		return said(s, "involvedObject.uid", string(waits.UID), "FailedScheduling", "not have enough free storage", begin)
	})
	s.Eventually("given back", func() error {
		if on := s.Read(chosen).Annotations[harness.AnnSelectedNode]; on != "" {
			return fmt.Errorf("it is on %s", on)
		}
		return s.IsPending(chosen)
	})
	if err := s.IsPending(stays); err != nil {
		t.Error(err)
	}
	p := pod{claim: chosen.Name, script: greedy}.run(s)
	wantRefused(s, output(s, p))
	if p.Spec.NodeName != one.Name {
		t.Errorf("the pod is on %s, want %s", p.Spec.NodeName, one.Name)
	}
}

// Metrics and the program say of each node how its pool holds volumes to their size.
func limitTold(t *testing.T, s *harness.Scene) {
	for n, want := range map[*cluster.Node]struct {
		method, metric string
	}{one: {"btrfs-squota", "1"}, other: {"none", "0"}} {
		p := awaitDriver(s, n)
		text, err := askPod(s, p, "metrics")
		if line := fmt.Sprintf("kubevirt_hpp_pool_quota_enforced{method=%q,pool=\"local\"} %s\n", want.method, want.metric); err != nil || !strings.Contains(text, "\n"+line) {
			t.Errorf("%s: metrics have no %q (%v):\n%s", n.Name, line, err, text)
		}
		pool := inspectIn(s, p).Pool
		if pool.Quotas != want.method || (pool.NoQuotas == "") != (want.metric == "1") {
			t.Errorf("%s: inspect says %+v, want the method %s", n.Name, pool, want.method)
		}
	}
}
