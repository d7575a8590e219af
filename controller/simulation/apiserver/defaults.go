package apiserver

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// defaulted are fields that the server sets if the client does not, by resource. A * goes into each
// item of a list or each value of an object. Paths without a value in the object above them do nothing.
var defaulted = map[string][]fieldDefault{
	"persistentvolumes":      {{"spec.persistentVolumeReclaimPolicy", "Retain"}, {"spec.volumeMode", "Filesystem"}, {"spec.hostPath.type", ""}},
	"persistentvolumeclaims": {{"spec.volumeMode", "Filesystem"}},
	"storageclasses":         {{"reclaimPolicy", "Delete"}, {"volumeBindingMode", "Immediate"}},
	"csidrivers": {{"spec.attachRequired", true}, {"spec.podInfoOnMount", false}, {"spec.storageCapacity", false},
		{"spec.fsGroupPolicy", "ReadWriteOnceWithFSType"}, {"spec.volumeLifecycleModes", []any{"Persistent"}},
		{"spec.requiresRepublish", false}, {"spec.seLinuxMount", false}},
	"daemonsets": {{"spec.revisionHistoryLimit", int64(10)}, {"spec.updateStrategy", Object{"type": "RollingUpdate", "rollingUpdate": Object{}}},
		{"spec.updateStrategy.rollingUpdate.maxUnavailable", int64(1)}, {"spec.updateStrategy.rollingUpdate.maxSurge", int64(0)}},
	"deployments": {{"spec.replicas", int64(1)}, {"spec.revisionHistoryLimit", int64(10)}, {"spec.progressDeadlineSeconds", int64(600)},
		{"spec.strategy", Object{"type": "RollingUpdate", "rollingUpdate": Object{}}}, {"spec.strategy.rollingUpdate.maxUnavailable", "25%"},
		{"spec.strategy.rollingUpdate.maxSurge", "25%"}},
	"secrets": {{"type", "Opaque"}},
	"validatingwebhookconfigurations": {{"webhooks.*.matchPolicy", "Equivalent"}, {"webhooks.*.timeoutSeconds", int64(10)},
		{"webhooks.*.namespaceSelector", Object{}}, {"webhooks.*.objectSelector", Object{}}, {"webhooks.*.failurePolicy", "Fail"},
		{"webhooks.*.rules.*.scope", "*"}, {"webhooks.*.clientConfig.service.port", int64(443)}},
}

// podDefaults are those of a pod's spec.
var podDefaults = []fieldDefault{
	{"restartPolicy", "Always"}, {"terminationGracePeriodSeconds", int64(30)}, {"dnsPolicy", "ClusterFirst"}, {"securityContext", Object{}},
	{"schedulerName", "default-scheduler"}, {"volumes.*.hostPath.type", ""}, {"volumes.*.configMap.defaultMode", int64(420)},
	{"volumes.*.secret.defaultMode", int64(420)}, {"volumes.*.projected.defaultMode", int64(420)},
	{"containers.*.terminationMessagePath", "/dev/termination-log"}, {"containers.*.terminationMessagePolicy", "File"},
	{"containers.*.imagePullPolicy", "IfNotPresent"}, {"containers.*.resources", Object{}}, {"containers.*.ports.*.protocol", "TCP"},
	{"containers.*.env.*.valueFrom.fieldRef.apiVersion", "v1"},
	{"containers.*.livenessProbe.timeoutSeconds", int64(1)}, {"containers.*.livenessProbe.periodSeconds", int64(10)},
	{"containers.*.livenessProbe.successThreshold", int64(1)}, {"containers.*.livenessProbe.failureThreshold", int64(3)},
	{"containers.*.livenessProbe.httpGet.scheme", "HTTP"}, {"containers.*.livenessProbe.httpGet.path", "/"},
}

type fieldDefault struct {
	path  string
	value any
}

// setDefaults sets the defaults of an object that the client sent.
func (t *table) setDefaults(o Object) {
	for _, d := range defaulted[t.Name] {
		d.set(o)
	}
	spec, _ := o["spec"].(Object)
	if t.Name == "daemonsets" || t.Name == "deployments" {
		spec = at[Object](o, "spec", "template", "spec")
	} else if t.Name != "pods" {
		return
	}
	for _, d := range podDefaults {
		if spec != nil {
			d.set(spec)
			fieldDefault{strings.Replace(d.path, "livenessProbe", "readinessProbe", 1), d.value}.set(spec)
		}
	}
}

// set sets the field where it is absent.
func (d fieldDefault) set(v any) {
	first, rest, more := strings.Cut(d.path, ".")
	if list, ok := v.([]any); ok {
		for _, item := range list {
			fieldDefault{rest, d.value}.set(item)
		}
		return
	}
	o, _ := v.(Object)
	switch {
	case o == nil:
	case more:
		fieldDefault{rest, d.value}.set(o[first])
	case o[first] == nil || reflect.DeepEqual(o[first], Object{}):
		o[first] = runtime.DeepCopyJSONValue(d.value)
	}
}
