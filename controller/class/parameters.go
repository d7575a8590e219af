package class

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/volume"
)

// KubernetesPrefix begins the keys of class parameters and volume attributes
// that are Kubernetes' own.
const KubernetesPrefix = "csi.storage.k8s.io/"

// Keys of class parameters and volume attributes; StoragePool is another.
const (
	// FSType is the filesystem type of CSI PVs. Nothing is formatted; a PV that
	// has a type gets its pod's fsGroup.
	FSType = KubernetesPrefix + "fstype"
	// QuotaParameter is required, best-effort or none; absent means
	// best-effort.
	QuotaParameter = "quota"
	// InodesParameter is how many files and directories a volume may have;
	// absent means no limit.
	InodesParameter = "inodes"
	// SizeAttribute is the size of an ephemeral inline volume.
	SizeAttribute = "size"

	// formerQuota is what QuotaParameter was named before. An ignored one would
	// leave a volume without the quota that its class requires.
	formerQuota = "limit"
)

// Source is where parameters come from. It decides which keys have an effect.
type Source int

// The sources of parameters.
const (
	// HostPathClass is a class of HostPathProvisioner. Its unknown parameters are
	// ignored, as older provisioners did.
	HostPathClass Source = 1 << iota
	// CSIClass is a class of the CSI driver. Parse refuses its unknown parameters, a
	// misspelt one and a secret among them.
	CSIClass
	// CSIRequest is a request to the CSI driver. The sidecar removes some of the
	// class's parameters that begin with KubernetesPrefix, and adds others.
	CSIRequest
	// InlineVolume is the volume in a pod's own specification. The kubelet adds
	// attributes that begin with KubernetesPrefix.
	InlineVolume
)

// Parameters is what a volume's parameters ask for.
type Parameters struct {
	// Pool is "" if none is named: the volume is then in DefaultPool, as PoolName
	// returns it. An inline volume may be in any pool then.
	Pool string
	// FSType is that of the PV.
	FSType string
	// Spec has the policy on quotas, the number of inodes, and the size of an inline
	// volume, 0 if it names none.
	Spec volume.Spec
}

// known are all keys that have an effect, and the sources that may have them.
var known = []struct {
	key   string
	in    Source
	parse func(p *Parameters, text string) (want string)
}{
	{StoragePool, CSIClass | CSIRequest | InlineVolume, func(p *Parameters, text string) string { p.Pool = text; return "" }},
	{FSType, CSIClass, func(p *Parameters, text string) string { p.FSType = cmp.Or(text, DefaultFSType); return "" }},
	{QuotaParameter, HostPathClass | CSIClass | CSIRequest, parseQuota},
	{InodesParameter, HostPathClass | CSIClass | CSIRequest, parseInodes},
	{SizeAttribute, InlineVolume, parseSize},
}

// Parse returns what parameters ask for. The error names the parameter; no retry
// changes the answer.
func (s Source) Parse(given map[string]string) (Parameters, error) {
	p := Parameters{FSType: DefaultFSType}
	if _, ok := given[formerQuota]; ok && s != InlineVolume {
		return p, fmt.Errorf("%s %s is now named %s", s.noun(), formerQuota, QuotaParameter)
	}
	if err := s.checkKeys(given); err != nil {
		return p, err
	}
	for _, k := range known {
		text, ok := given[k.key]
		if !ok || k.in&s == 0 {
			continue
		}
		if want := k.parse(&p, text); want != "" {
			return p, fmt.Errorf("%s %s is %q; it is %s", s.noun(), k.key, text, want)
		}
	}
	if p.Spec.Quota == volume.QuotaNone && p.Spec.Inodes > 0 {
		return p, fmt.Errorf("%s %s is %d and %s is %s; leave one out", s.noun(), InodesParameter, p.Spec.Inodes, QuotaParameter, volume.QuotaNone)
	}
	return p, nil
}

// checkKeys refuses the keys that have no effect: a misspelt parameter must not
// pass for one that has.
func (s Source) checkKeys(given map[string]string) error {
	if s == HostPathClass {
		return nil
	}
	var keys, unknown []string
	for _, k := range known {
		if k.in&s != 0 {
			keys = append(keys, k.key)
		}
	}
	prefixed := s != CSIClass // Kubernetes adds such keys
	for key := range given {
		if !slices.Contains(keys, key) && (!prefixed || !strings.HasPrefix(key, KubernetesPrefix)) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	also := ""
	if prefixed {
		also = " and all that begin with " + KubernetesPrefix
	}
	return fmt.Errorf("unknown %ss %q; known are %q%s", s.noun(), unknown, keys, also)
}

func (s Source) noun() string {
	if s == InlineVolume {
		return "volume attribute"
	}
	return "parameter"
}

// ParametersOf returns what a class's parameters ask for. The error names the
// class and the parameter.
func ParametersOf(c *storagev1.StorageClass) (Parameters, error) {
	source := CSIClass // the driver's name can be configured
	if c.Provisioner == HostPathProvisioner {
		source = HostPathClass
	}
	p, err := source.Parse(c.Parameters)
	if err != nil {
		return p, fmt.Errorf("class %q: %w; a class cannot be edited: delete it and make it anew", c.Name, err)
	}
	return p, nil
}

// PoolName returns the name of the pool that a class's parameters or a PV's
// volume attributes select.
func PoolName(from map[string]string) string { return cmp.Or(from[StoragePool], DefaultPool) }

func parseQuota(p *Parameters, text string) (want string) {
	// The empty policy is best-effort in records, and never written in a class.
	for _, policy := range []volume.QuotaPolicy{volume.QuotaRequired, volume.QuotaBestEffort, volume.QuotaNone} {
		if policy.String() == text {
			p.Spec.Quota = policy
			return ""
		}
	}
	return fmt.Sprintf("%v, %v or %v", volume.QuotaRequired, volume.QuotaBestEffort, volume.QuotaNone)
}

func parseInodes(p *Parameters, text string) (want string) {
	inodes, err := strconv.ParseUint(text, 10, 63)
	if err != nil || inodes == 0 {
		return "a whole number above zero, such as 100000"
	}
	p.Spec.Inodes = inodes
	return ""
}

func parseSize(p *Parameters, text string) (want string) {
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 {
		return "a size such as 1Gi"
	}
	p.Spec.Bytes = size.Value()
	return ""
}
