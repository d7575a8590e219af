package report

import "strings"

// shown are the fields of each kind that a report has. Everything else is left out, and counted: a new
// field of an API, or one that another program sets, is in no report until it is listed here. A star is
// any key of a map, and two stars are everything below.
var shown = map[string][]string{
	"Node": {"spec.unschedulable", "spec.taints.**", "status.capacity.*", "status.allocatable.*",
		"status.conditions.type", "status.conditions.status", "status.conditions.reason", "status.conditions.message",
		"status.conditions.lastTransitionTime", "status.nodeInfo.architecture", "status.nodeInfo.kernelVersion",
		"status.nodeInfo.kubeletVersion", "status.nodeInfo.operatingSystem", "status.nodeInfo.osImage",
		"status.nodeInfo.containerRuntimeVersion"},
	"CSINode": {"spec.drivers.name", "spec.drivers.nodeID", "spec.drivers.topologyKeys",
		"spec.drivers.allocatable.count"},
	"CSIDriver": {"spec.**"},
	"StorageClass": {"provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion", "allowedTopologies.**",
		"parameters.*", "mountOptions"},
	"PersistentVolume": {"spec.capacity.*", "spec.accessModes", "spec.persistentVolumeReclaimPolicy",
		"spec.storageClassName",
		"spec.volumeMode", "spec.nodeAffinity.**", "spec.claimRef.namespace", "spec.claimRef.name", "spec.claimRef.uid",
		"spec.hostPath.path", "spec.hostPath.type", "spec.local.path", "spec.local.fsType", "spec.csi.driver",
		"spec.csi.volumeHandle", "spec.csi.fsType", "spec.csi.volumeAttributes.storagePool", "status.phase",
		"status.reason", "status.message", "status.lastPhaseTransitionTime"},
	"PersistentVolumeClaim": {"spec.accessModes", "spec.resources.requests.*", "spec.resources.limits.*",
		"spec.storageClassName", "spec.volumeMode", "spec.volumeName", "spec.dataSource.kind", "spec.dataSource.apiGroup",
		"spec.dataSource.name", "spec.dataSourceRef.kind", "spec.dataSourceRef.apiGroup", "spec.dataSourceRef.name",
		"status.phase", "status.accessModes", "status.capacity.*", "status.conditions.type", "status.conditions.status",
		"status.conditions.reason", "status.conditions.message", "status.conditions.lastTransitionTime"},
	"CSIStorageCapacity": {"storageClassName", "capacity", "maximumVolumeSize", "nodeTopology.**"},
	"Lease":              {"spec.holderIdentity", "spec.renewTime", "spec.acquireTime", "spec.leaseDurationSeconds"},
	"HostPathProvisioner": {"spec.imagePullPolicy", "spec.metricsAuth", "spec.pathConfig.**", "spec.storagePools.name",
		"spec.storagePools.path",
		"spec.storagePools.pvcTemplate.storageClassName", "spec.storagePools.pvcTemplate.volumeMode",
		"spec.storagePools.pvcTemplate.resources.**", "spec.workload.nodeSelector.*",
		"spec.workload.tolerations.**", "spec.workload.affinity.nodeAffinity.**", "spec.featureGates", "status.**"},
	"DaemonSet": append(podFields("spec.template.spec."), "spec.selector.**", "spec.updateStrategy.**",
		"spec.template.metadata.labels.*", "spec.template.metadata.annotations.*", "status.currentNumberScheduled",
		"status.desiredNumberScheduled", "status.numberAvailable", "status.numberMisscheduled", "status.numberReady",
		"status.numberUnavailable", "status.observedGeneration", "status.updatedNumberScheduled"),
	"Pod": append(podFields("spec."), "status.phase", "status.reason", "status.message", "status.startTime",
		"status.conditions.type", "status.conditions.status", "status.conditions.reason", "status.conditions.message",
		"status.conditions.lastTransitionTime", "status.qosClass", "status.containerStatuses.name",
		"status.containerStatuses.ready", "status.containerStatuses.restartCount", "status.containerStatuses.image",
		"status.containerStatuses.imageID", "status.containerStatuses.state.**", "status.containerStatuses.lastState.**"),
	"Event": {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason",
		"message", "type", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series.count",
		"series.lastObservedTime", "source.component", "source.host", "reportingComponent", "reportingInstance", "action"},
}

// metadata are the fields of the metadata of each object. Of annotations the keys alone are shown, but
// for shownAnnotations.
var metadata = []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid",
	"metadata.generation",
	"metadata.resourceVersion", "metadata.creationTimestamp", "metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds", "metadata.finalizers", "metadata.labels.*", "metadata.annotations.*",
	"metadata.ownerReferences.kind", "metadata.ownerReferences.name", "metadata.ownerReferences.uid",
	"metadata.ownerReferences.controller"}

// podFields are the fields of the specification of a pod, whose containers of other programs are cut to
// their names and images before.
func podFields(at string) (all []string) {
	for _, field := range []string{"nodeName", "nodeSelector.*", "affinity.nodeAffinity.**", "tolerations.**",
		"priorityClassName", "priority", "serviceAccountName", "hostNetwork", "hostPID", "hostIPC", "restartPolicy",
		"terminationGracePeriodSeconds", "securityContext.fsGroup",
		"securityContext.runAsUser", "securityContext.runAsGroup", "securityContext.seLinuxOptions.*", "volumes.name",
		"volumes.hostPath.path", "volumes.hostPath.type",
		"volumes.secret.secretName", "volumes.configMap.name", "volumes.emptyDir.medium"} {
		all = append(all, at+field)
	}
	for _, list := range []string{"containers.", "initContainers."} {
		for _, field := range []string{"name", "image", "imagePullPolicy", "command", "args", "env.name", "env.value",
			"env.valueFrom.fieldRef.fieldPath", "env.valueFrom.secretKeyRef.name", "env.valueFrom.secretKeyRef.key",
			"env.valueFrom.configMapKeyRef.name", "env.valueFrom.configMapKeyRef.key", "ports.name", "ports.containerPort",
			"ports.hostPort", "ports.protocol", "resources.requests.*", "resources.limits.*",
			"securityContext.privileged", "securityContext.runAsUser", "securityContext.runAsGroup",
			"securityContext.capabilities.**", "securityContext.seLinuxOptions.*", "securityContext.readOnlyRootFilesystem",
			"securityContext.allowPrivilegeEscalation", "securityContext.seccompProfile.type", "volumeMounts.name",
			"volumeMounts.mountPath", "volumeMounts.mountPropagation", "volumeMounts.readOnly", "terminationMessagePolicy"} {
			all = append(all, at+list+field)
		}
	}
	return all
}

// fields is a tree of fields that are shown.
type fields struct {
	below map[string]*fields
	all   bool // everything below is shown
}

func treeOf(paths ...string) *fields {
	root := &fields{below: map[string]*fields{}}
	for _, path := range paths {
		at := root
		for name := range strings.SplitSeq(path, ".") {
			if name == "**" {
				at.all = true
				break
			}
			if at.below[name] == nil {
				at.below[name] = &fields{below: map[string]*fields{}}
			}
			at = at.below[name]
		}
	}
	return root
}

// keep returns what is shown of a value, and how many values are not. Elements of a list have the
// fields of the list.
func (f *fields) keep(value any) (kept any, dropped int) {
	switch v := value.(type) {
	case map[string]any:
		if f.all {
			return v, 0
		}
		some := map[string]any{}
		for key, field := range v {
			below := f.below[key]
			if below == nil {
				below = f.below["*"]
			}
			if below == nil {
				dropped += values(field)
				continue
			}
			one, n := below.keep(field)
			if dropped += n; one != nil {
				some[key] = one
			}
		}
		if len(some) == 0 && len(v) > 0 {
			return nil, dropped
		}
		return some, dropped
	case []any:
		some := make([]any, 0, len(v))
		for _, item := range v {
			one, n := f.keep(item)
			if dropped += n; one != nil {
				some = append(some, one)
			}
		}
		return some, dropped
	}
	if len(f.below) > 0 && !f.all { // a value where fields are expected
		return nil, 1
	}
	return value, 0
}

// values returns how many values are in a value.
func values(of any) (n int) {
	switch v := of.(type) {
	case map[string]any:
		for _, field := range v {
			n += values(field)
		}
		return n
	case []any:
		for _, item := range v {
			n += values(item)
		}
		return n
	}
	return 1
}
