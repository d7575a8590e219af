package csi

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// Keys with this prefix are added by Kubernetes; we read some of them.
const (
	kubernetesPrefix = class.KubernetesPrefix

	keyClaim          = kubernetesPrefix + "pvc/name"
	keyClaimNamespace = kubernetesPrefix + "pvc/namespace"
	keyPV             = kubernetesPrefix + "pv/name"
	keyEphemeral      = kubernetesPrefix + "ephemeral"
	keyPod            = kubernetesPrefix + "pod.name"
	keyPodNamespace   = kubernetesPrefix + "pod.namespace"
	keyPodUID         = kubernetesPrefix + "pod.uid"
)

// keySize is the attribute of an ephemeral volume that says how big it is.
const keySize = "size"

// checkKeys refuses what nobody would act upon: a misspelt parameter must not
// pass for one that is honoured.
func checkKeys(what string, given map[string]string, known ...string) error {
	unknown := class.UnknownKeys(given, known, kubernetesPrefix)
	if len(unknown) == 0 {
		return nil
	}
	return invalid("%s: %q is not known; known are %q and what begins with %s", what, unknown, known, kubernetesPrefix)
}

// checkParameters checks those of a class, and adds to the spec what they say of
// limits.
func checkParameters(given map[string]string, s *volume.Spec) error {
	if err := checkKeys("parameters", given, class.StoragePool, class.LimitParameter, class.InodesParameter); err != nil {
		return err
	}
	limits, err := class.LimitsOf(given)
	if err != nil {
		return invalid("%v", err)
	}
	s.Limit, s.Inodes = volume.LimitPolicy(limits.Policy), limits.Inodes
	return nil
}

// ownerOf is the claim of a volume, as far as the call tells; see the package
// comment for where its UID comes from.
func ownerOf(name string, parameters map[string]string) volume.Owner {
	return volume.Owner{
		Namespace: parameters[keyClaimNamespace],
		Name:      parameters[keyClaim],
		UID:       claimUID(name),
	}
}

// newPV is the PV of a new volume, as far as the call tells. A sidecar that was
// not told to say it still names the volume after its PV.
func newPV(name string, parameters map[string]string) string {
	if pv := parameters[keyPV]; pv != "" || claimUID(name) == "" {
		return pv
	}
	return name
}

func claimUID(name string) string {
	uid, found := strings.CutPrefix(name, "pvc-")
	if found && regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(uid) {
		return uid
	}
	return ""
}

// ephemeral reports whether a volume context is of a pod's own volume.
func ephemeral(context map[string]string) bool { return context[keyEphemeral] == "true" }

// ephemeralSpec is what a pod asks for in its own volume.
func ephemeralSpec(name string, context map[string]string) (volume.Spec, error) {
	spec := volume.Spec{Name: name, Bytes: defaultBytes, Ephemeral: true, Owner: volume.Owner{
		Namespace: context[keyPodNamespace], Name: context[keyPod], UID: context[keyPodUID],
	}}
	if err := checkKeys("volume attributes", context, class.StoragePool, keySize); err != nil {
		return spec, err
	}
	if text, given := context[keySize]; given {
		size, err := resource.ParseQuantity(text)
		if err != nil || size.Sign() <= 0 {
			return spec, invalid("volume attribute %s: %q is not a size such as 1Gi", keySize, text)
		}
		spec.Bytes = size.Value()
	}
	return spec, nil
}
