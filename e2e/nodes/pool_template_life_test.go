package nodes

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// mounts returns the mounts of the node at and below its volumes, in their order, but not those of
// pods.
func (s *poolScene) mounts() string {
	s.Helper()
	text, err := onNode(one, "cat", "/proc/self/mountinfo")
	must(s.Scene, "mountinfo", err)
	lines := []string{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.Fields(line)[4], "/var/hpvolumes/") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// want waits until that many mounts are at the pool's directory.
func (s *poolScene) want(pool string, n int) {
	s.Helper()
	at := " /var/hpvolumes/" + pool + "/csi "
	s.Eventually("mounts of "+pool, func() error {
		if got := strings.Count(s.mounts(), at); got != n {
			return fmt.Errorf("%d mounts, want %d:\n%s", got, n, s.mounts())
		}
		return nil
	})
}

// user runs a pod that writes into a volume of the pool.
func (s *poolScene) user(pool string) operatorUser {
	s.Helper()
	u := operatorWriter(s.Scene, one, s.Create(harness.Claim{Class: s.ClassName("on-" + pool), Size: "1Mi"}))
	u.volume = filepath.Join(pool, "csi", harness.PVName(u.claim))
	return u
}

// writes checks that the pod goes on writing, on the volume that is mounted on the node.
func (s *poolScene) writes(pool string, u operatorUser) {
	s.Helper()
	now, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context(), u.pod.Name, metav1.GetOptions{})
	must(s.Scene, "read pod", err)
	if was, is := u.pod.Status.ContainerStatuses[0].ContainerID, now.Status.ContainerStatuses[0].ContainerID; was != is {
		s.Errorf("%s has container %s, before it was %s", u.pod.Name, is, was)
	}
	file := "/var/hpvolumes/" + u.volume + "/clock"
	_, err = onNode(one, "rm", "-f", file)
	must(s.Scene, "remove what is written", err)
	s.Eventually("a pod of pool "+pool+" writes", func() error {
		text, err := onNode(one, "cat", file)
		if err == nil && text == "" {
			err = errors.New("nothing yet")
		}
		return err
	})
}

// agrees waits until the agent's metric and the state in the resource are these, which they are at
// the same time.
func (s *poolScene) agrees(pool, phase string) {
	s.Helper()
	s.Eventually("pool "+pool+" "+phase, func() error {
		phases, metrics := s.states()
		if want := poolReady(pool, phase == "Ready"); phases[pool] != phase || !strings.Contains(metrics, want+"\n") {
			return fmt.Errorf("phase %q, want %s and %s", phases[pool], phase, want)
		}
		return nil
	})
}

// holderRestarts ends the pods that hold the filesystems.
func (s *poolScene) holderRestarts(users map[string]operatorUser) {
	s.Helper()
	for pool := range users {
		_, err := kubectl("", "-n", harness.Namespace, "delete", "pod", "-l", "hpp-pool="+pool+"-hpp")
		must(s.Scene, "end the holder", err)
		_, err = kubectl("", "-n", harness.Namespace, "rollout", "status", "deployment/hpp-pool-"+pool+"-"+one.Name, "--timeout=120s")
		must(s.Scene, "another holder", err)
	}
}

// unmountedOnNode unmounts a pool on the node by hand: the holder mounts it again, and the agent
// needs no restart.
func (s *poolScene) unmountedOnNode(users map[string]operatorUser) {
	s.Helper()
	agent, err := podOf(s.Scene, one, csiSet)
	must(s.Scene, "agent", err)
	d := "deployment/hpp-pool-raw-" + one.Name
	_, err = kubectl("", "-n", harness.Namespace, "scale", d, "--replicas=0") // the operator scales it again
	must(s.Scene, "end the holder", err)
	_, err = onNode(one, "umount", "--lazy", "/var/hpvolumes/raw/csi")
	must(s.Scene, "unmount", err)
	s.want("raw", 1)
	s.goOn(users)
	now, err := podOf(s.Scene, one, csiSet)
	must(s.Scene, "agent", err)
	if now.UID != agent.UID || now.Status.ContainerStatuses[0].RestartCount != agent.Status.ContainerStatuses[0].RestartCount {
		s.Errorf("the agent was restarted: %s, %s", agent.Name, now.Name)
	}
}

// removed ends the pods that use the pools, and removes the pools. Their claims stay.
func (s *poolScene) removed(users map[string]operatorUser) {
	s.Helper()
	for _, u := range users {
		end(s.Scene, u.pod)
		s.Delete(u.claim)
		s.Gone(harness.PVName(u.claim))
	}
	release := s.occupies("raw")
	_, err := kubectl("", "patch", operatorName, "--type=merge", "-p", `{"spec":{"storagePools":[{"name":"plain","path":"/var/hpvolumes/plain"}]}}`)
	must(s.Scene, "remove the pools", err)
	release()
	for pool := range users {
		name := "hpp-pool-" + pool + "-" + one.Name
		s.Eventually(name+" gone", func() error {
			left, err := kubectl("", "-n", harness.Namespace, "get", "deployment", name, "--ignore-not-found")
			if err == nil && left != "" {
				message, _ := kubectl("", "get", operatorName, "-o", "jsonpath={.status.conditions[0]}") // it is only shown
				err = errors.New(left + message)
			}
			return err
		})
		s.want(pool, 0)
		phase, err := kubectl("", "-n", harness.Namespace, "get", "pvc", name, "-o", "jsonpath={.status.phase}")
		if err != nil || phase != "Bound" {
			s.Errorf("claim %s: %q, %v", name, phase, err)
		}
	}
}

// away removes the claims, and what a test that failed left.
func (s *poolScene) away() {
	if s.Failed() {
		text, _ := kubectl("", "-n", harness.Namespace, "describe", "pods", "-l", "hpp-pool")
		logs, _ := kubectl("", "-n", harness.Namespace, "logs", "-l", "hpp-pool", "--prefix", "--tail=30")
		resource, _ := kubectl("", "get", operatorName, "-o", "yaml")
		jobs, _ := kubectl("", "-n", harness.Namespace, "get", "jobs,pods,deployments,pvc", "-o", "wide")
		s.Logf("%s\n%s\n%s\n%s\n%s", resource, jobs, text, logs, s.mounts())
		_, _ = kubectl("", "-n", harness.Namespace, "delete", "deployment", "-l", "kubevirt.io.hostpath-provisioner/storagePool", "--timeout=120s")
		for _, pool := range []string{"raw", "nested"} {
			_, _ = onNode(one, "umount", "--lazy", "/var/hpvolumes/"+pool+"/csi") // it may not be mounted
		}
	}
	_, err := kubectl("", "-n", harness.Namespace, "delete", "pvc", "-l", "kubevirt.io.hostpath-provisioner/storagePool", "--timeout=120s")
	must(s.Scene, "delete the claims", err)
	_, err = kubectl("", "delete", "pv", s.ClassName("raw"), "--ignore-not-found")
	must(s.Scene, "delete the PV", err)
	for _, class := range []string{"raw", "nested", "on-raw", "on-nested"} {
		_, err = kubectl("", "delete", "storageclass", s.ClassName(class), "--ignore-not-found")
		must(s.Scene, "delete the class", err)
	}
	for _, pool := range []string{"raw", "nested", "plain"} {
		if _, err := onNode(one, "rm", "-rf", "/var/hpvolumes/"+pool); err != nil {
			s.Error(err)
		}
	}
}
