package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

var csiMigrating = ourForm("examples/migrate", csiAlone.noSpace)

// hostPath PVs become CSI PVs under pods that write to most of them, and hostPath PVs again: not a
// file is other than before, not a line is lost, and no container starts again. MIGRATE_VOLUMES
// says how many, 20 unless set.
func TestMigrate(t *testing.T) {
	volumes := 20
	if text := os.Getenv("MIGRATE_VOLUMES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 5 || n > 400 {
			t.Fatalf("MIGRATE_VOLUMES is %q, want 5 to 400", text)
		}
		volumes = n
	}
	t.Cleanup(func() {
		undeployCSI(t)
		if _, err := kubectl("", "delete", "-f", filepath.Join(root, "manifests", "examples", "migrate", "rbac.yaml")); err != nil {
			t.Error(err)
		}
		redeploy(t)
	})
	m := newMigration(newScene(t), volumes)
	takeAgentAway(m.Scene)
	csiMigrating.deploy(t)
	m.awaitVerdicts(func(v *moving) string { return map[bool]string{false: "ready", true: "waiting pod "}[v.writer != ""] })
	m.compare("planned")

	m.set("run", false)
	m.awaitVerdicts(func(v *moving) string {
		return map[bool]string{false: "migrated", true: "waiting pod "}[v.writer != ""]
	})
	m.compare("default")
	m.onePodGoes(fmt.Sprintf("%s-%d", writers, howMany-1))

	m.moveUsed("run", true)
	m.Logf("volumes %d moved %d differences %d restarts %d", volumes, m.moved(), m.differences, m.restarts)
	m.podsAnew(true)
	m.isUsual()

	m.moveUsed("back", false)
	m.podsAnew(false)
	m.Logf("and back: differences %d restarts %d", m.differences, m.restarts)
	csiMigrating.permitted(t)
	m.end()
}

// end deletes pods and claims. So many take longer than a namespace may.
func (m *migration) end() {
	m.Helper()
	for _, args := range [][]string{{"statefulset", writers}, {"pvc", "--all", "--wait=false"}} {
		_, err := kubectl("", append([]string{"-n", m.Namespace, "delete"}, args...)...)
		must(m.Scene, "delete", err)
	}
	for _, v := range m.volumes {
		if v.kept {
			m.PatchPV(v.pv(), `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
		}
	}
	m.Within(m.patience(), "all gone", func() error {
		for _, v := range m.volumes {
			if err := errors.Join(m.IsGone(v.pv()), harness.Missing(hostPath(v.node, v.pv()))); err != nil {
				return err
			}
		}
		return nil
	})
}

// moveUsed moves all volumes, whoever uses them.
func (m *migration) moveUsed(mode string, csi bool) {
	m.Helper()
	begin := time.Now()
	m.set(mode, true)
	m.awaitVerdicts(func(*moving) string { return map[bool]string{true: "migrated", false: "left"}[csi] })
	m.Logf("%s: %d volumes after %s", mode, len(m.volumes), time.Since(begin).Round(time.Second))
	m.compare(mode)
	if n := m.moved(); csi && n != len(m.volumes) || !csi && n != 0 {
		m.Errorf("%s: %d of %d PVs are CSI PVs", mode, n, len(m.volumes))
	}
}

// moved counts the CSI PVs that have taken the place of others. Each is bound as the first one was,
// with the same policy.
func (m *migration) moved() (n int) {
	m.Helper()
	for _, v := range m.volumes {
		pv := m.PV(v.pv())
		if pv.Spec.CSI != nil && pv.UID != v.uid {
			n++
		}
		phase, policy := corev1.VolumeBound, corev1.PersistentVolumeReclaimDelete
		if v.kept {
			phase, policy = corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain
		}
		if pv.Status.Phase != phase || pv.Spec.PersistentVolumeReclaimPolicy != policy {
			m.Errorf("PV %s is %s with policy %s", pv.Name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy)
		}
		if !v.kept {
			if err := m.IsBound(v.claim); err != nil {
				m.Error(err)
			}
		}
	}
	return n
}

// compare holds files and pods against what they were.
func (m *migration) compare(when string) {
	m.Helper()
	for _, v := range m.volumes {
		now, err := snapshot(hostPath(v.node, v.pv()))
		must(m.Scene, "look at the files", err)
		for _, d := range differing(v.before, now) {
			m.differences++
			m.Errorf("%s: volume %s: %s", when, v.pv(), d)
		}
		if v.writer == "" {
			continue
		}
		m.Eventually("the pod writes on", func() error { return v.growing() })
	}
	for name, p := range m.pods {
		now, err := m.Client.CoreV1().Pods(m.Namespace).Get(m.Context(), name, metav1.GetOptions{})
		must(m.Scene, "read pod", err)
		if now.UID != p.UID || now.Status.ContainerStatuses[0].RestartCount != 0 ||
			now.Status.ContainerStatuses[0].ContainerID != p.Status.ContainerStatuses[0].ContainerID || !isReady(now) {
			m.restarts++
			m.Errorf("%s: pod %s did not run on: %+v", when, name, now.Status)
		}
	}
}

// growing returns nil where both logs have more lines than before, and none is missing.
func (v *moving) growing() error {
	lines, err := linesOf(v.path("log"))
	held, errHeld := linesOf(v.path("held"))
	if err = errors.Join(err, errHeld); err != nil {
		return err
	}
	if min(lines, held) <= v.lines {
		return fmt.Errorf("%d lines and %d, before there were %d", lines, held, v.lines)
	}
	v.lines = min(lines, held)
	return nil
}

// onePodGoes scales the StatefulSet down by one: the volumes of that pod are migrated, and no
// others that are used. Its successor has them through the driver.
func (m *migration) onePodGoes(name string) {
	m.Helper()
	m.scale(howMany - 1)
	m.Eventually("pod gone", func() error {
		if _, err := m.Client.CoreV1().Pods(m.Namespace).Get(m.Context(), name, metav1.GetOptions{}); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	delete(m.pods, name)
	m.awaitVerdicts(func(v *moving) string {
		return map[bool]string{false: "migrated", true: "waiting pod "}[v.writer != "" && v.writer != name]
	})
	m.scale(howMany)
	m.pods[name] = awaitReady(m.Scene, name)
	m.isMounted(name, true)
	m.compare("one pod went")
}

func (m *migration) scale(replicas int) {
	m.Helper()
	_, err := kubectl("", "-n", m.Namespace, "scale", "statefulset", writers, "--replicas="+strconv.Itoa(replicas))
	must(m.Scene, "scale", err)
}

// podsAnew deletes all pods. They come back with their volumes, through the driver or not.
func (m *migration) podsAnew(csi bool) {
	m.Helper()
	for _, p := range m.pods {
		must(m.Scene, "delete pod", m.Client.CoreV1().Pods(p.Namespace).Delete(m.Context(), p.Name, metav1.DeleteOptions{}))
	}
	for name, p := range m.pods {
		m.Eventually("pod "+name+" again", func() error {
			now, err := m.Client.CoreV1().Pods(p.Namespace).Get(m.Context(), name, metav1.GetOptions{})
			if err == nil && now.UID == p.UID {
				err = errors.New("it is the one of before")
			}
			return err
		})
		m.pods[name] = awaitReady(m.Scene, name)
		m.isMounted(name, csi)
	}
	m.compare("pods again")
}

// isMounted checks whether the pod has its volumes through the driver.
func (m *migration) isMounted(name string, csi bool) {
	m.Helper()
	for _, v := range m.volumes {
		if v.writer != name {
			continue
		}
		_, err := onNode(v.node, "mountpoint", "-q", fmt.Sprintf(csiVolume, m.pods[name].UID, v.pv()))
		if (err == nil) != csi {
			m.Errorf("pod %s has volume %s through the driver: %v, want %v", name, v.pv(), err == nil, csi)
		}
	}
}

// isUsual has one volume be what CSI volumes are: its use is known, and it grows under its pod;
// another one is deleted.
func (m *migration) isUsual() {
	m.Helper()
	used, unused := m.volumes[len(m.volumes)-1], -1
	for i, v := range m.volumes {
		if v.writer == "" && !v.kept {
			unused = i
		}
	}
	patch := `{"spec":{"resources":{"requests":{"storage":"20Mi"}}}}`
	_, err := kubectl("", "-n", m.Namespace, "patch", "pvc", used.claim.Name, "-p", patch)
	must(m.Scene, "ask for more", err)
	m.Eventually("growth", func() error {
		if has := m.Read(used.claim).Status.Capacity[corev1.ResourceStorage]; has.String() != "20Mi" {
			return fmt.Errorf("it has %s; its events: %v", has.String(), m.Events(used.claim.UID))
		}
		return nil
	})
	m.Eventually("stats", func() error { // the kubelet looks once a minute
		v, err := statsOf(m.Scene, used.node, used.claim)
		if err == nil && (v.CapacityBytes == 0 || v.UsedBytes == 0) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	v := m.volumes[unused]
	m.Delete(v.claim)
	m.Gone(v.pv())
	m.Eventually("directory gone", func() error { return harness.Missing(hostPath(v.node, v.pv())) })
	m.volumes = append(m.volumes[:unused:unused], m.volumes[unused+1:]...)
}
