package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// noticed is how long a pool may be Ready in the resource while the agent says that it is not: the
// kubelet asks the agent every 5 seconds and believes the third answer, and the operator follows
// the pod.
const noticed = 30 * time.Second

// agreement compares, every second until the function that it returns is called, the states of the
// pools in the resource with the agent's metrics. A pool that is Ready is ready for the agent, but
// for the time in which that is noticed. The other way round is no rule: an agent with one pool
// that is not ready is not ready itself, and so is each of its pools in the resource.
func (s *poolScene) agreement(pools ...string) (end func()) {
	s.Helper()
	done, over := make(chan struct{}), make(chan struct{})
	longest, since := map[string]time.Duration{}, map[string]time.Time{}
	samples, apart := 0, 0
	sample := func() {
		phases, metrics := s.states()
		for _, pool := range pools {
			samples++
			if phases[pool] != "Ready" || strings.Contains(metrics, poolReady(pool, true)+"\n") {
				delete(since, pool)
				continue
			}
			apart++
			if since[pool].IsZero() {
				since[pool] = time.Now()
			}
			longest[pool] = max(longest[pool], time.Since(since[pool]))
		}
	}
	go func() {
		defer close(over)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			sample()
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		s.Helper()
		close(done)
		<-over
		s.Logf("%d samples; Ready in the resource and not for the agent in %d, for at most %v", samples, apart, longest)
		for pool, d := range longest {
			if d > noticed {
				s.Errorf("pool %s was Ready in the resource for %s while its agent said that it was not", pool, d.Round(time.Second))
			}
		}
		if samples < 10 {
			s.Errorf("%d samples: nothing was compared", samples)
		}
	}
}

// states returns the states of the pools in the resource, and the agent's metrics; nothing of what
// does not answer.
func (s *poolScene) states() (phases map[string]string, metrics string) {
	var cr struct {
		Status struct {
			StoragePoolStatuses []struct{ Name, Phase string }
		}
	}
	path := "/apis/hostpathprovisioner.kubevirt.io/v1beta1/hostpathprovisioners/hostpath-provisioner"
	if data, err := s.Client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(s.Context()); err == nil {
		_ = json.Unmarshal(data, &cr) // the API server's own words
	}
	phases = map[string]string{}
	for _, p := range cr.Status.StoragePoolStatuses {
		phases[p.Name] = p.Phase
	}
	if agent, err := podOf(s.Scene, one, csiSet); err == nil {
		metrics, _ = askPod(s.Scene, agent, "metrics") // an agent that does not answer has no pool that is ready
	}
	return phases, metrics
}

// poolReady is the line of a pool in the agent's metrics.
func poolReady(pool string, ready bool) string {
	return fmt.Sprintf("kubevirt_hpp_pool_ready{pool=%q} %d", pool, map[bool]int{true: 1}[ready])
}

// undisturbed does something under the pods that hold the filesystems and those that use them: the
// mounts stay as they are.
func (s *poolScene) undisturbed(users map[string]operatorUser, do func()) {
	s.Helper()
	mounted := s.mounts()
	do()
	if now := s.mounts(); now != mounted {
		s.Errorf("mounted before\n%s\nand after\n%s", mounted, now)
	}
	s.goOn(users)
}

// goOn waits until the pools are ready, and checks that the pods that use them go on writing.
func (s *poolScene) goOn(users map[string]operatorUser) {
	s.Helper()
	for pool, u := range users {
		s.agrees(pool, "Ready")
		s.writes(pool, u)
	}
}

// kubeletRestarts restarts the node's kubelet.
func (s *poolScene) kubeletRestarts() {
	s.Helper()
	must(s.Scene, "stop the kubelet", one.StopKubelet())
	must(s.Scene, "start the kubelet", one.StartKubelet())
	must(s.Scene, "node", one.AwaitReady(s.Context()))
}

// grows makes the disk of the pool raw larger, and its filesystem, as an administrator does. The
// agent offers what came.
func (s *poolScene) grows(u operatorUser) {
	s.Helper()
	before, err := s.total("raw")
	must(s.Scene, "size", err)
	must(s.Scene, "grow the image", os.Truncate(s.disk.Image, 640<<20))
	for _, argv := range [][]string{{"losetup", "--set-capacity", s.disk.Device}, {"xfs_growfs", "/var/hpvolumes/raw/csi"}} {
		_, err := onNode(one, argv...)
		must(s.Scene, "grow the disk", err)
	}
	s.Eventually("a larger pool", func() error {
		now, err := s.total("raw")
		if err == nil && now < before+(300<<20) {
			err = fmt.Errorf("%.0f bytes, before %.0f", now, before)
		}
		return err
	})
	s.writes("raw", u)
}

// total returns the size of a pool in the agent's metrics.
func (s *poolScene) total(pool string) (bytes float64, err error) {
	_, metrics := s.states()
	return harness.MetricIn(metrics, "kubevirt_hpp_pool_total_bytes", fmt.Sprintf("pool=%q", pool))
}

// occupies has a process on the node that keeps a pool's filesystem busy. The function that it
// returns waits until the Job that unmounts the pool has named the process, and ends it.
func (s *poolScene) occupies(pool string) (release func()) {
	s.Helper()
	cmd, err := one.Command(context.WithoutCancel(s.Context()), "sh", "-c", "cd /var/hpvolumes/"+pool+"/csi && echo here && exec sleep 600")
	must(s.Scene, "start a process", err)
	out, err := cmd.StdoutPipe()
	must(s.Scene, "start a process", err)
	must(s.Scene, "start a process", cmd.Start())
	end := func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	s.Cleanup(end)
	_, err = out.Read(make([]byte, 4)) // it is in the directory
	must(s.Scene, "start a process", err)
	words := fmt.Sprintf("/var/hpvolumes/%s/csi is in use: process %d (sleep)", pool, cmd.Process.Pid)
	return func() {
		s.Helper()
		s.Eventually("the process named", func() error {
			logs, err := kubectl("", "-n", harness.Namespace, "logs", "-l", "batch.kubernetes.io/job-name", "--tail=-1")
			if err == nil && !strings.Contains(logs, words) {
				err = errors.New(logs)
			}
			return err
		})
		s.want(pool, 1)
		end()
	}
}
