package objects

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/poolrecord"
)

// claimDir is where the container has the claim. No pool can be there.
const claimDir = "/run/claim"

// constrained pins pods to the constraints of the agents, on OpenShift.
var constrained = map[string]string{"openshift.io/required-scc": "hostpath-provisioner-csi"}

// port is that of the probes.
const port = 9898

// asDaemon has the cluster-autoscaler treat a holder as a pod of a DaemonSet, which does not keep its
// node. Otherwise the pod does, by its hostPath volume: it alone keeps the node of a stopped machine,
// whose volumes would be lost.
const asDaemon = "cluster-autoscaler.kubernetes.io/daemonset-pod"

// annotations returns those of the pool's pods.
func (p Pool) annotations() map[string]string {
	all := maps.Clone(constrained)
	if p.ScaleDown {
		all[asDaemon] = "true"
	}
	return all
}

// anyTaint tolerates every taint. The operator ends a holder when nothing uses its disk; a taint
// must not end it before, because pods that run on would lose their volumes. On a drained node an
// evicted holder comes back at once, and the operator removes pools from drained nodes above all.
var anyTaint = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

// drainLabel with the value drainSkip has the Cluster API leave a pod alone while it drains a node.
// It would evict a pod that tolerates the taint again and again (MachineDrainRules, Cluster API
// 1.9).
const drainLabel, drainSkip = "cluster.x-k8s.io/drain", "skip"

// Maker makes the objects of pools on claims.
type Maker struct {
	apply.Installation
	// Image is that of the pods.
	Image string
	// PullSecrets are those of the image.
	PullSecrets []corev1.LocalObjectReference
}

// Holder returns the Deployment of the pool on the node, which has that record.
func (m Maker) Holder(cr *v1beta1.HostPathProvisioner, p Pool, node string,
	recorded poolrecord.Holder) *appsv1.Deployment {
	labels := map[string]string{HolderLabel: LabelOf(p.Name)}
	name := NameOf(p.Name, node)
	args := append([]string{"hold", "--claim=" + claimDir, "--path=" + p.Path}, recorded.Arguments()...)
	pod := m.pod(cr, node, p.Path, "holder", args...)
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "claim", MountPath: claimDir})
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	c.LivenessProbe = &corev1.Probe{ProbeHandler: get("/healthz"), PeriodSeconds: 10, FailureThreshold: 6,
		TimeoutSeconds: 3}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: get("/readyz"), PeriodSeconds: 2, TimeoutSeconds: 3}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: m.Namespace, Labels: m.HolderLabels(p.Name)},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{HolderLabel: LabelOf(p.Name), drainLabel: drainSkip}, Annotations: p.annotations()},
				Spec: pod},
		},
	}
}

func get(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}
}

// HolderLabels returns those of a claim, a Deployment or a Job.
func (m Maker) HolderLabels(pool string) map[string]string {
	return map[string]string{PoolLabel: LabelOf(pool), "k8s-app": "hostpath-provisioner",
		"app.kubernetes.io/component":  "storage",
		"app.kubernetes.io/managed-by": "hostpath-provisioner-operator"}
}

// pod returns a pod on the node with the directory above that of the pool, at the path of the host.
func (m Maker) pod(cr *v1beta1.HostPathProvisioner, node, path, name string, args ...string) corev1.PodSpec {
	above := filepath.Dir(path)
	policy := cr.Spec.ImagePullPolicy
	if policy == "" {
		policy = corev1.PullIfNotPresent
	}
	return corev1.PodSpec{
		ServiceAccountName: "hostpath-provisioner-admin-csi", AutomountServiceAccountToken: new(bool),
		EnableServiceLinks: new(bool),
		PriorityClassName:  "system-node-critical", TerminationGracePeriodSeconds: ptr.To[int64](10),
		Tolerations: anyTaint, ImagePullSecrets: m.PullSecrets,
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}},
		Containers: []corev1.Container{{
			Name: name, Image: m.Image, ImagePullPolicy: policy, Args: args,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			// Only a privileged container may make mounts that the host sees.
			SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true),
				RunAsNonRoot: new(bool), RunAsUser: new(int64)},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"),
					corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "pool", MountPath: above,
				MountPropagation: ptr.To(corev1.MountPropagationBidirectional)}},
		}},
		Volumes: []corev1.Volume{{Name: "pool", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: above, Type: ptr.To(corev1.HostPathDirectoryOrCreate)}}}},
	}
}

// NodeOf returns the node of a Deployment. The existing operator writes the Node's name where the
// node's hostname belongs: its pods never start where the two differ.
func NodeOf(d *appsv1.Deployment) string {
	a := d.Spec.Template.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range slices.Concat(t.MatchFields, t.MatchExpressions) {
			if len(r.Values) == 1 && (r.Key == metav1.ObjectNameField || r.Key == corev1.LabelHostname) {
				return r.Values[0]
			}
		}
	}
	return ""
}

// PathOf returns the directory at which the Deployment's pod mounts, also one of the existing
// operator.
func PathOf(d *appsv1.Deployment) string {
	return cmp.Or(argumentOf(d, "--path="), argumentOf(d, "--mountPath"))
}

// ClaimOf returns the UID of the claim that the Deployment's pod mounts, "" if it is of an earlier
// version.
func ClaimOf(d *appsv1.Deployment) types.UID { return types.UID(argumentOf(d, "--claim-uid=")) }

// argumentOf returns the value of an argument of the Deployment's pod: what follows the flag, or
// the next argument.
func argumentOf(d *appsv1.Deployment, flag string) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		for i, word := range words {
			value, ok := strings.CutPrefix(word, flag)
			if ok && value == "" && i+1 < len(words) {
				value = words[i+1]
			}
			if ok {
				return value
			}
		}
	}
	return ""
}

// PoolOf returns the name of the Deployment's pool.
func PoolOf(d *appsv1.Deployment) string { return strings.TrimSuffix(d.Labels[PoolLabel], "-hpp") }
