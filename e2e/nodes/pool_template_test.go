package nodes

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// templateResource has a pool on a claim of a class of hostPath volumes, and one on the PV of a raw
// disk, on one node.
const templateResource = `
apiVersion: hostpathprovisioner.kubevirt.io/v1beta1
kind: HostPathProvisioner
metadata: {name: hostpath-provisioner}
spec:
  storagePools:
  - name: nested
    path: /var/hpvolumes/nested
    pvcTemplate: {storageClassName: NESTED, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
  - name: raw
    path: /var/hpvolumes/raw
    pvcTemplate: {storageClassName: RAW, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
  workload:
    nodeSelector: {kubernetes.io/hostname: HOSTNAME}
    tolerations: [{operator: Exists}]
`

// olderPool is a claim and a Deployment as the existing operator has them, with a program of the
// test that mounts.
const olderPool = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: hpp-pool-raw-NODE
  namespace: hostpath-provisioner
  labels: &labels {k8s-app: hostpath-provisioner, app.kubernetes.io/managed-by: hostpath-provisioner-operator, kubevirt.io.hostpath-provisioner/storagePool: raw-hpp}
spec: {storageClassName: RAW, accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: hpp-pool-raw-NODE
  namespace: hostpath-provisioner
  labels: {k8s-app: hostpath-provisioner, app.kubernetes.io/managed-by: hostpath-provisioner-operator, kubevirt.io.hostpath-provisioner/storagePool: raw-hpp}
spec:
  selector: {matchLabels: {hpp-pool: raw-hpp}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2, maxUnavailable: 1}}
  template:
    metadata: {labels: {hpp-pool: raw-hpp}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [
        {key: kubernetes.io/hostname, operator: In, values: [HOSTNAME]}]}]}}}
      containers:
      - name: mounter
        image: BUSYBOX
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'mkdir -p /host$2 && mount --bind /source /host$2 && touch /tmp/done && exec sleep infinity', mounter, --mountPath, /var/hpvolumes/raw/csi, --hostPath, /host]
        readinessProbe: {periodSeconds: 1, exec: {command: [test, -e, /tmp/done]}}
        securityContext: {privileged: true}
        volumeMounts:
        - {name: data, mountPath: /source}
        - {name: host-root, mountPath: /host, mountPropagation: Bidirectional}
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: hpp-pool-raw-NODE}}
      - {name: host-root, hostPath: {path: /, type: Directory}}
`

// poolScene is the cluster with classes for the claims of pools, and for volumes of these pools.
type poolScene struct {
	*harness.Scene
	words *strings.Replacer
	disk  *harness.Loop // of the pool raw
}

// Pools on claims on a real node: taken over from the existing operator, used, disturbed and
// removed.
func TestPoolTemplate(t *testing.T) {
	t.Cleanup(func() { operatorAway(t, "operator") })
	s := &poolScene{Scene: newScene(t)}
	s.disk = s.Loop(320) // mkfs.xfs makes none below 300 MiB
	before := s.mounts()
	raw, nested := s.classes()
	t.Cleanup(s.away)
	s.words = strings.NewReplacer("RAW", raw, "NESTED", nested, "HOSTNAME", one.Hostname, "NODE", one.Name, "BUSYBOX", cluster.BusyboxImage)
	_, err := kubectl(s.words.Replace(olderPool), "apply", "--field-manager=hostpath-provisioner-operator", "-f", "-")
	must(s.Scene, "apply the older pool", err)
	_, err = kubectl("", "-n", harness.Namespace, "rollout", "status", "deployment/hpp-pool-raw-"+one.Name, "--timeout=120s")
	must(s.Scene, "older pool", err)
	s.want("raw", 1)
	mounted := s.mounts()

	s.install()
	operatorComplete(s.Scene)
	if now := s.mounts(); !strings.Contains(now, mounted) {
		t.Errorf("mounted before the operator\n%s\nand after\n%s", mounted, now)
	}
	users := map[string]operatorUser{}
	for _, pool := range []string{"nested", "raw"} {
		users[pool] = s.user(pool)
		s.want(pool, 1)
		s.writes(pool, users[pool])
	}
	agree := s.agreement("nested", "raw")
	s.undisturbed(users, func() { s.holderRestarts(users) })
	s.undisturbed(users, s.kubeletRestarts)
	s.grows(users["raw"])
	s.unmountedOnNode(users)
	agree()
	s.removed(users)
	if after := s.mounts(); after != before {
		t.Errorf("mounts\n%s\nbefore them\n%s", after, before)
	}
}

// classes creates what the claims of the pools need, and returns the names of the classes.
func (s *poolScene) classes() (raw, nested string) {
	s.Helper()
	later := storagev1.VolumeBindingWaitForFirstConsumer
	raw = s.Class("raw", func(c *storagev1.StorageClass) {
		c.Provisioner, c.VolumeBindingMode = "kubernetes.io/no-provisioner", &later
	})
	nested = s.Class("nested", func(c *storagev1.StorageClass) { c.VolumeBindingMode = &later })
	for _, pool := range []string{"raw", "nested"} {
		s.Class("on-"+pool, func(c *storagev1.StorageClass) {
			c.Provisioner, c.VolumeBindingMode, c.Parameters = csiDriver, &later, map[string]string{"storagePool": pool}
		})
	}
	fs := "xfs" // it grows without CAP_SYS_RESOURCE, which not every machine has
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: raw},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("128Mi")}, StorageClassName: raw,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: s.disk.Device, FSType: &fs}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{one.Hostname}}}}}}},
		},
	}
	_, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), pv, metav1.CreateOptions{})
	must(s.Scene, "create PV", err)
	return raw, nested
}

// install installs the operator and the resource.
func (s *poolScene) install() {
	s.Helper()
	operatorDefined(s.Scene)
	_, err := kubectl("", "apply", "-k", filepath.Join(root, "manifests", "operator"))
	must(s.Scene, "install", err)
	_, err = kubectl(s.words.Replace(templateResource), "apply", "-f", "-")
	must(s.Scene, "apply the resource", err)
}
