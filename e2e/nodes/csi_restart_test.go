package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// csiWriter is a pod on the node that goes on writing into a volume, and the volume's name.
func csiWriter(s *harness.Scene, n *cluster.Node) (claim *corev1.PersistentVolumeClaim, p *corev1.Pod, volume string) {
	s.Helper()
	claim = csiClaim(s)
	p = pod{claim: claim.Name, hostname: n.Hostname, script: ticking}.run(s)
	return claim, p, s.Bound(claim).Name
}

func csiWrites(s *harness.Scene, n *cluster.Node, volume string) {
	s.Helper()
	writes(s, n, filepath.Join("csi", volume))
}

// csiOutlives has a pod on the node while something happens, of which it notices nothing.
// Afterwards it ends, the next one starts, and the volume goes with its claim.
func csiOutlives(s *harness.Scene, n *cluster.Node, happens func()) {
	s.Helper()
	csiClaimOutlives(s, n, csiClaim(s), happens)
}

// csiClaimOutlives does that with a claim that is there.
func csiClaimOutlives(s *harness.Scene, n *cluster.Node, claim *corev1.PersistentVolumeClaim, happens func()) {
	s.Helper()
	p := pod{claim: claim.Name, hostname: n.Hostname, script: ticking}.run(s)
	volume := s.Bound(claim).Name
	happens()
	awaitDriver(s, n)
	csiWrites(s, n, volume)
	now, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
	must(s, "read pod", err)
	if was, is := p.Status.ContainerStatuses[0].ContainerID, now.Status.ContainerStatuses[0].ContainerID; was != is || !isReady(now) {
		s.Errorf("the pod is ready: %v, its container %s, before it was %s", isReady(now), is, was)
	}
	end(s, p)
	again := pod{claim: claim.Name, script: "test -s /data/clock"}.run(s)
	if again.Spec.NodeName != n.Name {
		s.Errorf("the next pod is on %s, the volume on %s", again.Spec.NodeName, n.Name)
	}
	end(s, again)
	s.Delete(claim)
	s.Gone(volume)
	csiGone(s, volume)
}

func csiRestart(_ *testing.T, s *harness.Scene) {
	csiOutlives(s, other, func() {
		old, err := podOf(s, other, csiSet)
		must(s, "driver", err)
		end(s, old)
	})
}

// Without a word of farewell: the sockets and the lock of the pool are left behind. The next one
// sees what this one mounted.
func csiKilled(_ *testing.T, s *harness.Scene) {
	claim, p, volume := csiWriter(s, one)
	csiOutlives(s, one, func() {
		old, err := podOf(s, one, csiSet)
		must(s, "driver", err)
		before := old.Status.ContainerStatuses[0]
		must(s, "kill", syscall.Kill(pidOf(s, one, old), syscall.SIGKILL))
		s.Eventually("started again", func() error {
			now, err := podOf(s, one, csiSet)
			if err == nil && now.Status.ContainerStatuses[0].ContainerID == before.ContainerID {
				err = fmt.Errorf("%s: %+v", now.Name, now.Status.ContainerStatuses[0])
			}
			return err
		})
	})
	csiTakeAway(s, claim, p, volume)
}

// The kubelet forgets all it knew: it learns of the driver again, goes on with the pods that run,
// and unmounts what was mounted for one that went meanwhile, of which the API server has no word
// any more.
func csiKubelet(t *testing.T, s *harness.Scene) {
	crash := csiCrasher(s, other)
	lost, lostPod, lostVolume := csiWriter(s, other)
	csiOutlives(s, other, func() {
		must(s, "stop kubelet", other.StopKubelet())
		s.Cleanup(func() { _ = other.StartKubelet() }) // where the test has ended before
		now := int64(0)
		pods := s.Client.CoreV1().Pods(s.Namespace)
		must(s, "delete pod", pods.Delete(s.Context(), lostPod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		must(s, "start kubelet", other.StartKubelet())
		must(s, "kubelet", other.AwaitReady(s.Context()))
	})
	crash()
	s.Delete(lost)
	begin := time.Now()
	s.Eventually("the volume of the pod that went", func() error { return s.IsGone(lostVolume) })
	t.Logf("the volume of the pod that went is gone after %s", time.Since(begin).Round(time.Second))
	csiGone(s, lostVolume)
}

// csiCrasher is a pod that has a directory of a volume for itself. Its container ends when the
// returned function is called, and has to start again: the kubelet publishes the volume before
// that, while its own mount of the directory is in place.
func csiCrasher(s *harness.Scene, n *cluster.Node) (crash func()) {
	s.Helper()
	claim := s.Create(harness.Claim{Class: csiClass, Mode: corev1.ReadWriteOncePod})
	const script = "date >>/data/starts; touch /tmp/done; until test -e /data/crash; do sleep 0.2; done; rm /data/crash; exit 1"
	p := pod{claim: claim.Name, hostname: n.Hostname, script: script, change: func(spec *corev1.PodSpec) {
		spec.Containers[0].VolumeMounts[0].SubPath = "sub"
	}}.run(s)
	volume, before := s.Bound(claim).Name, p.Status.ContainerStatuses[0].ContainerID
	return func() {
		must(s, "ask for a crash", os.WriteFile(csiPath(n, volume, "sub", "crash"), nil, 0o600))
		s.Eventually("the container started again", func() error {
			now, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), p.Name, metav1.GetOptions{})
			if err == nil && (now.Status.ContainerStatuses[0].ContainerID == before || !isReady(now)) {
				err = fmt.Errorf("%+v; its events: %v", now.Status.ContainerStatuses[0], s.Events(p.UID))
			}
			return err
		})
		end(s, p)
		s.Delete(claim)
		s.Gone(volume)
		csiGone(s, volume)
	}
}

// Somebody clears the kubelet's directories: the sockets come back, and the kubelet takes the
// driver again.
func csiSockets(t *testing.T, s *harness.Scene) {
	for _, socket := range []string{csiToldBy, csiSocket} {
		_, err := onNode(one, "rm", socket)
		must(s, "remove socket", err)
		s.Eventually(socket+" is there again", func() error {
			_, err := onNode(one, "test", "-S", socket)
			return err
		})
	}
	// The kubelet forgets the driver with the socket, and learns of it with the next.
	s.Eventually("registered again", func() error { return isRegistered(s, one) })
	claim := csiClaim(s)
	p := pod{claim: claim.Name, hostname: one.Hostname, script: "touch /data/file"}.run(s)
	if p.Spec.NodeName != one.Name {
		t.Errorf("the pod is on %s", p.Spec.NodeName)
	}
}
