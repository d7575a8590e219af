package contract

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/volume/record"
)

// KubernetesPrefix begins class parameters and volume attributes that Kubernetes reserves.
const KubernetesPrefix = "csi.storage.k8s.io/"

// Keys of class parameters and volume attributes; StoragePool is another.
const (
	// FSType is the type of CSI PVs. Nothing is formatted; a PV with a type gets its pod's fsGroup.
	FSType = KubernetesPrefix + "fstype"
	// QuotaParameter is required, best-effort or none; absent means best-effort.
	QuotaParameter = "quota"
	// InodesParameter is the quota on files and directories; absent means none.
	InodesParameter = "inodes"
	// ModeParameter is the octal mode of a volume's directory; absent means the
	// agent's --directory-mode.
	ModeParameter = "mode"
	// UIDParameter and GIDParameter are owner and group of a volume's directory, by default root.
	UIDParameter = "uid"
	GIDParameter = "gid"
	// RetentionParameter is how long a volume is kept once it was deleted; absent means the agent's
	// --trash-retention.
	RetentionParameter = "trashRetention"
	// ConsistencyParameter is crash or fuzzy: what a copy of a volume in use may be; absent means crash.
	ConsistencyParameter = "consistency"
	// CopyParameter is allowed if the bytes of a volume may be copied where its copy cannot share them;
	// absent means that such a copy is refused.
	CopyParameter = "copy"
	// SizeAttribute is the size of an ephemeral inline volume.
	SizeAttribute = "size"

	// formerQuota is the former name of QuotaParameter. It is refused: ignored, it
	// would leave a volume without the quota that its class requires.
	formerQuota = "limit"
)

// Source is the origin of parameters. It determines which keys have an effect.
type Source int

// The sources of parameters.
const (
	// HostPathClass is a class of a dialect's provisioner. Its unknown parameters are
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

// Parameters are the parsed parameters of a volume.
type Parameters struct {
	// Pool is "" if no pool is named. The volume of a claim is then in DefaultPool,
	// and an inline volume in any pool.
	Pool string
	// FSType is the fsType of the PV.
	FSType string
	// Spec has the policy on quotas, the quota on inodes, the mode, owner and group of
	// the directory, and the size of an inline volume, 0 if it names none.
	Spec record.Spec
	// Fuzzy and CopyBytes are what the class permits of a copy of another volume: files of different
	// moments, and that bytes are written.
	Fuzzy, CopyBytes bool
}

type knownKey struct {
	key   string
	in    Source
	parse func(p *Parameters, text string) (want string)
}

// known lists the keys that have an effect, the sources in which they have it, and
// their parsers. A parser returns the accepted values if it refuses the text.
var known = []knownKey{
	{StoragePool, CSIClass | CSIRequest | InlineVolume,
		func(p *Parameters, text string) string { p.Pool = text; return "" }},
	{FSType, CSIClass, func(p *Parameters, text string) string { p.FSType = cmp.Or(text, DefaultFSType); return "" }},
	{QuotaParameter, HostPathClass | CSIClass | CSIRequest, parseQuota},
	{InodesParameter, HostPathClass | CSIClass | CSIRequest, parseInodes},
	{ModeParameter, HostPathClass | CSIClass | CSIRequest, parseMode},
	{UIDParameter, HostPathClass | CSIClass | CSIRequest,
		func(p *Parameters, text string) string { return parseID(&p.Spec.UID, text) }},
	{GIDParameter, HostPathClass | CSIClass | CSIRequest,
		func(p *Parameters, text string) string { return parseID(&p.Spec.GID, text) }},
	{RetentionParameter, HostPathClass | CSIClass, parseRetention},
	{ConsistencyParameter, CSIClass | CSIRequest, parseConsistency},
	{CopyParameter, CSIClass | CSIRequest, parseCopy},
	{SizeAttribute, InlineVolume, parseSize},
	// Templates of the local-path provisioner, of which numbers are served.
	{permPattern, HostPathClass, parseMode},
	{userPattern, HostPathClass, func(p *Parameters, text string) string { return parseID(&p.Spec.UID, text) }},
	{groupPattern, HostPathClass, func(p *Parameters, text string) string { return parseID(&p.Spec.GID, text) }},
}

// Parse parses parameters. The error names the parameter, its value and the accepted
// values; a retry does not change the result.
func (s Source) Parse(given map[string]string) (Parameters, error) {
	p := Parameters{FSType: DefaultFSType}
	if _, ok := given[formerQuota]; ok && s != InlineVolume {
		return p, fmt.Errorf("%s %s is now named %s", s.noun(), formerQuota, QuotaParameter)
	}
	if _, ok := given[RetentionParameter]; ok && s == CSIRequest {
		return p, fmt.Errorf("%s %s needs an agent that sees PVs, and this one serves a sidecar: leave it out, or run the "+
			"agent with --provision=csi", s.noun(), RetentionParameter)
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
			return p, fmt.Errorf("%s %s is %q; it must be %s", s.noun(), k.key, text, want)
		}
	}
	if p.Spec.Quota == record.QuotaNone && p.Spec.Inodes > 0 {
		return p, fmt.Errorf("%s %s is %d and %s is %s; leave one out", s.noun(), InodesParameter, p.Spec.Inodes,
			QuotaParameter, record.QuotaNone)
	}
	return p, nil
}

// checkKeys returns an error if a key has no effect, so that a misspelt parameter is not ignored.
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
	prefixed := s != CSIClass // the sidecar and the kubelet add keys with KubernetesPrefix
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

// Ignored returns the parameters of a class that have no effect, sorted: those of a dialect that are
// misspelt, or of another provisioner. Parse refuses such parameters of classes of the CSI driver.
func Ignored(c *storagev1.StorageClass) (keys []string) {
	d := DialectOf(c.Provisioner)
	if d == nil {
		return nil
	}
	for key := range c.Parameters {
		if !strings.HasPrefix(key, KubernetesPrefix) && !slices.Contains(d.parameters, key) &&
			!slices.ContainsFunc(known, func(k knownKey) bool { return k.key == key && k.in&HostPathClass != 0 }) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (s Source) noun() string {
	if s == InlineVolume {
		return "volume attribute"
	}
	return "parameter"
}

// PoolName returns the pool that class parameters or volume attributes name, or DefaultPool.
func PoolName(from map[string]string) string { return cmp.Or(from[StoragePool], DefaultPool) }

func parseQuota(p *Parameters, text string) (want string) {
	// The empty policy means best-effort in records, and is not valid in a class.
	for _, policy := range []record.QuotaPolicy{record.QuotaRequired, record.QuotaBestEffort, record.QuotaNone} {
		if policy.String() == text {
			p.Spec.Quota = policy
			return ""
		}
	}
	return fmt.Sprintf("%v, %v or %v", record.QuotaRequired, record.QuotaBestEffort, record.QuotaNone)
}

func parseInodes(p *Parameters, text string) (want string) {
	inodes, err := strconv.ParseUint(text, 10, 63)
	if err != nil || inodes == 0 {
		return "a whole number above zero, such as 100000"
	}
	p.Spec.Inodes = inodes
	return ""
}

func parseMode(p *Parameters, text string) (want string) {
	mode, err := record.ParseMode(text)
	if err != nil {
		return "an octal mode such as 0770, or 2770 with setgid; setuid is not offered"
	}
	p.Spec.Mode = mode
	return ""
}

// parseID parses a user's or group's ID. The largest number of 32 bits is none:
// chown(2) takes it to mean no change.
func parseID(id *uint32, text string) (want string) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return "a number from 0 to 4294967294, such as 1000"
	}
	*id = uint32(n)
	return ""
}

func parseSize(p *Parameters, text string) (want string) {
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 || WholeBytes(&size) == math.MaxInt64 {
		return "a size such as 1Gi"
	}
	p.Spec.Bytes = WholeBytes(&size)
	return ""
}

// keptNever is the TrashRetention of a volume that is not kept once it is deleted.
const keptNever = -1

// parseRetention parses for how long a deleted volume is kept. 0 keeps none of the class.
func parseRetention(p *Parameters, text string) (want string) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d < 0 || d%time.Second != 0:
		return "a duration in whole seconds such as 24h, or 0 for none"
	case d == 0:
		p.Spec.TrashRetention = keptNever
	default:
		p.Spec.TrashRetention = int64(d / time.Second)
	}
	return ""
}

func parseConsistency(p *Parameters, text string) (want string) {
	if p.Fuzzy = text == "fuzzy"; !p.Fuzzy && text != "crash" {
		return "crash or fuzzy"
	}
	return ""
}

func parseCopy(p *Parameters, text string) (want string) {
	if p.CopyBytes = text == "allowed"; !p.CopyBytes {
		return "allowed, or left out"
	}
	return ""
}
