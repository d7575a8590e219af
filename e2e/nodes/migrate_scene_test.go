package nodes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	writers   = "writer" // a StatefulSet
	howMany   = 4        // its pods
	csiVolume = "/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/%s/mount"
)

// writing adds a line to each volume, again and again, and to a file of each that stays open. A
// write that fails ends it.
const writing = `set -e; trap 'exit 0' TERM; i=0
for d in /data/*; do eval "exec $((++i + 9))>>$d/held"; done; n=0
while :; do
  n=$((n+1)); i=0
  for d in /data/*; do echo "$POD $n" >>$d/log; eval "echo $POD $n >&$((++i + 9))"; done
  : >/tmp/done; sleep 0.2
done`

// moving is a volume that is migrated.
type moving struct {
	node   *cluster.Node
	claim  *corev1.PersistentVolumeClaim
	writer string // the pod that has it, if any
	kept   bool   // its claim is gone, its PV Released
	uid    types.UID
	before map[string]string
	lines  int
}

func (v *moving) pv() string              { return harness.PVName(v.claim) }
func (v *moving) path(name string) string { return hostPath(v.node, v.pv(), name) }

// migration is a cluster full of hostPath volumes, most of them written to by pods.
type migration struct {
	*harness.Scene
	volumes     []*moving
	pods        map[string]*corev1.Pod
	differences int
	restarts    int
}

// newMigration has the agent that runs now serve that many volumes: eight of ten have a writer, one
// of twenty is Released.
func newMigration(s *harness.Scene, volumes int) *migration {
	s.Helper()
	m := &migration{Scene: s, pods: map[string]*corev1.Pod{}}
	each := volumes * 8 / 10 / howMany
	begin := time.Now()
	m.startWriters(each)
	for i := range volumes - howMany*each {
		n := local.Nodes()[i%2]
		v := &moving{node: n, claim: s.Create(harness.Claim{Node: n.Name}), kept: i < max(1, volumes/20)}
		s.Bound(v.claim)
		m.volumes = append(m.volumes, v)
	}
	for i := range howMany {
		p := awaitReady(s, fmt.Sprintf("%s-%d", writers, i))
		m.pods[p.Name] = p
		for k := range each {
			claim := claimNamed(s, fmt.Sprintf("v%02d-%s", k, p.Name))
			m.volumes = append(m.volumes, &moving{node: nodeNamed(s, p.Spec.NodeName), claim: claim, writer: p.Name})
		}
	}
	for _, v := range m.volumes {
		fillOddly(s, hostPath(v.node, v.pv()))
		v.uid = s.PV(v.pv()).UID
		if v.kept {
			m.keep(v)
		}
		var err error
		v.before, err = snapshot(hostPath(v.node, v.pv()))
		must(s, "look at the files", err)
	}
	s.Logf("%d volumes after %s", len(m.volumes), time.Since(begin).Round(time.Second))
	return m
}

// keep deletes the volume's claim, and has the PV stay with its data until the test has ended.
func (m *migration) keep(v *moving) {
	m.Helper()
	m.PatchPV(v.pv(), `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	m.Cleanup(func() {
		_, _ = kubectl("", "patch", "pv", v.pv(), "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	})
	m.Delete(v.claim)
	m.Released(v.pv())
}

// startWriters makes the StatefulSet whose pods have so many volumes each.
func (m *migration) startWriters(each int) {
	m.Helper()
	class, grace, replicas := harness.ClassDelayed, int64(5), int32(howMany)
	labels := map[string]string{"app": writers}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: writers}, Spec: appsv1.StatefulSetSpec{
		ServiceName: writers, Replicas: &replicas, PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}},
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.BusyboxImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"sh", "-c", writing},
				Env: []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
				}}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/tmp/done"}},
				}},
			}},
		}},
	}}
	for k := range each {
		name := fmt.Sprintf("v%02d", k)
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")},
				},
			},
		})
		main := &set.Spec.Template.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/data/" + name})
	}
	_, err := m.Client.AppsV1().StatefulSets(m.Namespace).Create(m.Context(), set, metav1.CreateOptions{})
	must(m.Scene, "create StatefulSet", err)
}

// set has the agents migrate in another way, and waits until they do. Both nodes get their new
// agent at once.
func (m *migration) set(mode string, used bool) {
	m.Helper()
	for _, args := range [][]string{
		{"-n", harness.Namespace, "patch", "daemonset", csiSet, "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`},
		{"-n", harness.Namespace, "set", "env", "daemonset/" + csiSet, "MIGRATE_TO_CSI=" + mode, fmt.Sprintf("MIGRATE_USED=%v", used)},
		{"-n", harness.Namespace, "rollout", "status", "daemonset/" + csiSet, "--timeout=120s"},
	} {
		_, err := kubectl("", args...)
		must(m.Scene, "set the mode", err)
	}
}

// verdicts are the agents' answers, by PV.
func (m *migration) verdicts() (map[string]string, error) {
	all := map[string]string{}
	for _, n := range local.Nodes() {
		p, err := podOf(m.Scene, n, csiSet)
		if err != nil {
			return nil, err
		}
		text, err := kubectl("", "-n", p.Namespace, "exec", p.Name, "--", "/hostpath-provisioner", "migrate", "-o", "json")
		if err != nil {
			return nil, err
		}
		var report struct {
			Volumes []struct{ PV, Verdict, Reason string }
		}
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return nil, err
		}
		for _, v := range report.Volumes {
			all[v.PV] = strings.TrimSpace(v.Verdict + " " + v.Reason)
		}
	}
	return all, nil
}

// awaitVerdicts waits until the agents say of every volume what want says.
func (m *migration) awaitVerdicts(want func(*moving) string) {
	m.Helper()
	m.Within(m.patience(), "verdicts", func() error {
		all, err := m.verdicts()
		if err != nil {
			return err
		}
		wrong := slices.DeleteFunc(slices.Clone(m.volumes), func(v *moving) bool { return strings.HasPrefix(all[v.pv()], want(v)) })
		if len(wrong) > 0 {
			v := wrong[0]
			return fmt.Errorf("of %d volumes, one is %s: %q, want %s", len(wrong), v.pv(), all[v.pv()], want(v))
		}
		return nil
	})
}

// patience is what a node may need for its volumes, on a machine that is busy.
func (m *migration) patience() time.Duration {
	return 2*soon + time.Duration(len(m.volumes))*3*time.Second
}
