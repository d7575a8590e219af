package contract

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Names of the local-path provisioner. They do not change.
const (
	// pathParameter is the class parameter that names one of the node's paths.
	pathParameter = "nodePath"
	// unsafeParameter lets the local-path provisioner execute any patternParameter, and has no effect
	// here: no template is executed.
	unsafeParameter = "allowUnsafePathPattern"
	// patternParameter is the class parameter that names directories, a template.
	patternParameter = "pathPattern"
	// These are mode, owner and group of the directory, as templates; numbers are served.
	permPattern, userPattern, groupPattern = "permPattern", "userPattern", "groupPattern"
	// affinityParameter is the label of Nodes that the affinity of PVs requires. The policies of the
	// agents read no Nodes, so that only the hostname is offered.
	affinityParameter = "nodeAffinityKey"
	// annVolumeType on a claim is local or hostPath. annDefaultVolumeType on a class
	// is the same for claims without it.
	annVolumeType        = "volumeType"
	annDefaultVolumeType = "defaultVolumeType"
)

// checkLocalPath refuses annotations and patterns of LocalPathProvisioner that are not supported.
func checkLocalPath(claim *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) error {
	if _, err := localVolume(claim, c); err != nil {
		return err
	}
	if key, given := c.Parameters[affinityParameter]; given && key != corev1.LabelHostname {
		return fmt.Errorf("class %q has the parameter %s: %q, and the agent pins PVs to %s alone; a class cannot be edited: "+
			"delete it and create it again without the parameter, or keep the local-path provisioner for it",
			c.Name, affinityParameter, key, corev1.LabelHostname)
	}
	_, err := patternNaming(c)
	return err
}

// localPathSource returns the source that the annotations of claim and class name.
func localPathSource(path string, claim *corev1.PersistentVolumeClaim,
	c *storagev1.StorageClass) corev1.PersistentVolumeSource {
	if local, _ := localVolume(claim, c); local {
		return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
	}
	return hostPathSource(path)
}

// localVolume reports whether the claim's PV has the source local, and not hostPath.
// The error names the annotation, its value and the accepted values.
func localVolume(claim *corev1.PersistentVolumeClaim, sc *storagev1.StorageClass) (bool, error) {
	at, text := fmt.Sprintf("annotation %s of class %q", annDefaultVolumeType,
		sc.Name), sc.Annotations[annDefaultVolumeType]
	if own, ok := claim.Annotations[annVolumeType]; ok {
		at, text = "annotation "+annVolumeType, own
	} else if text == "" {
		return false, nil
	}
	switch strings.ToLower(text) { // the local-path provisioner accepts any case
	case "local":
		return true, nil
	case "hostpath":
		return false, nil
	}
	return false, fmt.Errorf("%s is %q; it must be local or hostPath", at, text)
}

// namings are the patterns that are offered, without spaces. Each is one element of a
// path and contains the PV's name, which makes it unique.
var namings = []struct {
	pattern string
	name    naming
}{
	{"{{.PVName}}_{{.PVC.Namespace}}_{{.PVC.Name}}", func(pv, namespace, claim string) string {
		return truncate(pv+"_"+namespace+"_"+claim, maxDirectory)
	}},
	{"{{.PVName}}", func(pv, _, _ string) string { return pv }},
	{"{{.PVC.Name}}-{{.PVName}}", func(pv, _, claim string) string { return Directory(pv, claim, true) }},
	{"{{.PVC.Namespace}}-{{.PVC.Name}}-{{.PVName}}", func(pv, namespace, claim string) string {
		return Directory(pv, namespace+"-"+claim, true)
	}},
}

// patternNaming returns the naming that the class's parameter pathPattern asks for, the local-path
// provisioner's if it has none. A template is not executed, because one of user data can lead out
// of the pool: patternNaming refuses each pattern that is none of namings.
func patternNaming(sc *storagev1.StorageClass) (naming, error) {
	text, given := sc.Parameters[patternParameter]
	if !given {
		return namings[0].name, nil
	}
	pattern := strings.Join(strings.Fields(text), "")
	var offered []string
	for _, n := range namings {
		if n.pattern == pattern {
			return n.name, nil
		}
		offered = append(offered, n.pattern)
	}
	return nil, fmt.Errorf("class %q has the parameter %s: %q, a template that may lead out of the directory of the "+
		"volumes; the agent offers %s; a class cannot be edited: delete it and create it again with one of these, or "+
		"without the parameter",
		sc.Name, patternParameter, text, strings.Join(offered, ", "))
}
