package csi

import (
	"cmp"
	"regexp"
	"strings"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Keys that Kubernetes adds to parameters and attributes.
const (
	kubernetesPrefix = contract.KubernetesPrefix

	keyClaim          = kubernetesPrefix + "pvc/name"
	keyClaimNamespace = kubernetesPrefix + "pvc/namespace"
	keyPV             = kubernetesPrefix + "pv/name"
	keyEphemeral      = kubernetesPrefix + "ephemeral"
	keyPod            = kubernetesPrefix + "pod.name"
	keyPodNamespace   = kubernetesPrefix + "pod.namespace"
	keyPodUID         = kubernetesPrefix + "pod.uid"
)

func parse(from contract.Source, given map[string]string) (contract.Parameters, error) {
	p, err := from.Parse(given)
	if err != nil {
		return p, invalid("%v", err)
	}
	return p, nil
}

// ownerOf returns the claim of a volume, with the fields that the call has. The package
// comment explains the UID.
func ownerOf(name string, parameters map[string]string) record.Owner {
	return record.Owner{
		Namespace: parameters[keyClaimNamespace],
		Name:      parameters[keyClaim],
		UID:       claimUID(name),
	}
}

// newPV returns the name of a new volume's PV, "" if it is unknown. A sidecar that does
// not add the parameter still gives the volume the name of its PV.
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

// inlineSpec returns what a pod asks for in an inline volume, and the name of the pool.
func inlineSpec(name string, context map[string]string) (spec volume.Spec, pool string, err error) {
	p, err := parse(contract.InlineVolume, context)
	if err != nil {
		return spec, "", err
	}
	spec = p.Spec
	spec.Name, spec.Bytes, spec.Ephemeral = name, cmp.Or(spec.Bytes, defaultBytes), true
	spec.Owner = record.Owner{Namespace: context[keyPodNamespace], Name: context[keyPod], UID: context[keyPodUID]}
	return spec, p.Pool, nil
}
