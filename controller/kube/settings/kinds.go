package settings

import (
	"cmp"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Kind is a kind of values.
type Kind struct {
	shown string // the type in --help
	// Want describes the values that are accepted, as in "set it to ...".
	Want string
	// store reports whether it accepts a value, and stores what it parses in *target, if not nil.
	store func(value string, target any) bool
}

// Accepts reports whether a value is of the kind.
func (k Kind) Accepts(value string) bool { return k.store(value, nil) }

// kind returns the kind of values that parse parses and accept accepts, which may be nil. Their
// targets are of type *T.
func kind[T any](shown, want string, parse func(string) (T, error), accept func(T) bool) Kind {
	return Kind{shown, want, func(value string, target any) bool {
		v, err := parse(value)
		if err != nil || accept != nil && !accept(v) {
			return false
		}
		if target != nil {
			*target.(*T) = v
		}
		return true
	}}
}

const (
	aboveZero = "a number above zero"
	// defaultNamespaces are where the local-path provisioner's manifests, k3s and kind run it.
	defaultNamespaces = "kube-system,local-path-storage"
)

// The kinds of the tables.
var (
	text    = kind("string", "a text", literally, nil)
	boolean = kind("bool", "true or false", parseBool, nil)
	natural = kind("int", "a number that is not negative", parseInt, func(n int) bool { return n >= 0 })
	factor  = kind("float64", aboveZero, parseFloat[float64](64), positive)
	rate    = kind("float32", aboveZero, parseFloat[float32](32), positive)
	period  = kind("duration", "a duration above zero such as 5m", time.ParseDuration, positive)
	level   = Kind{"Level", "a number", storeLevel}
	size    = kind("string", "a quantity such as 10Gi", resource.ParseQuantity, isSize)
	mode    = kind("string", "an octal mode above zero such as 0770, of permissions, setgid (2000) and sticky (1000)",
		record.ParseMode, nil)
	policy = oneOf("", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	claims = kind("string", "hostpath, csi, or hostpath,csi", parseList,
		each(func(s string) bool { return s == "hostpath" || s == "csi" }))
	compat     = kind("string", "hostpath, local-path, or both with a comma", contract.ParseCompat, nil)
	others     = kind("string", "hostpath, rancher.io/local-path, or both with a comma", contract.ParseProvisioners, nil)
	migrate    = oneOf(MigrateOff, MigratePlan, MigrateRun, MigrateBack, MigrateAnnotated)
	namespaces = kind("string", "namespaces with commas between, such as "+defaultNamespaces, parseList, areNamespaces)
	tlsVersion = kind("string", "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13", literally, isTLSVersion)
	inline     = kind("string", "any, none, or pools with commas between and the largest size of each, such as "+
		"scratch=1Gi,fast=any", contract.ParseInlineVolumes, nil)
	address = kind("string", "an address such as :6060", parseLocal, nil)
)

// Directory is the kind of absolute paths without . and .. that are not the root.
var Directory = kind("string", "an absolute path without . and ..", literally, func(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/"
})

// Duration returns the kind of durations that are not negative.
func Duration(example string) Kind {
	return kind("duration", "a duration such as "+example, time.ParseDuration,
		func(d time.Duration) bool { return d >= 0 })
}

// oneOf returns the kind of the values, of which an empty one is not described.
func oneOf[T ~string](values ...T) Kind {
	var want []string
	for _, v := range values {
		if v != "" {
			want = append(want, string(v))
		}
	}
	last := len(want) - 1
	return kind("string", strings.Join(want[:last], ", ")+" or "+want[last],
		func(value string) (T, error) { return T(value), nil }, func(v T) bool { return slices.Contains(values, v) })
}

// either returns the kind of two values, whose targets are of type *bool: true for the second.
func either(no, yes string) Kind {
	return kind("string", no+" or "+yes, func(value string) (bool, error) {
		if value != no && value != yes {
			return false, strconv.ErrSyntax
		}
		return value == yes, nil
	}, nil)
}

// positive reports whether a number is above zero and finite. NaN is neither.
func positive[T time.Duration | float32 | float64](n T) bool {
	return n > 0 && !math.IsInf(float64(n), 0)
}

func literally(value string) (string, error) { return value, nil }

// parseBool accepts any spelling of true, as older provisioners do.
func parseBool(value string) (bool, error) { return strconv.ParseBool(strings.ToLower(value)) }

func parseInt(value string) (int, error) {
	n, err := strconv.ParseInt(value, 0, 0)
	return int(n), err
}

func parseFloat[T float32 | float64](bits int) func(string) (T, error) {
	return func(value string) (T, error) {
		n, err := strconv.ParseFloat(value, bits)
		return T(n), err
	}
}

// storeLevel sets the level of the logs. All targets, of type *klog.Level, are that of the process.
func storeLevel(value string, target any) bool {
	if target != nil {
		return target.(*klog.Level).Set(value) == nil
	}
	_, err := strconv.ParseInt(value, 10, 32) // as Set does
	return err == nil
}

// isSize reports whether a disk may have the size.
func isSize(q resource.Quantity) bool {
	return q.Sign() >= 0 && contract.WholeBytes(&q) < math.MaxInt64
}

// parseList returns the elements of a comma-separated list, trimmed, that are not empty.
func parseList(value string) (all []string, err error) {
	for s := range strings.SplitSeq(value, ",") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all, nil
}

func each(ok func(string) bool) func([]string) bool {
	return func(all []string) bool { return !slices.ContainsFunc(all, func(s string) bool { return !ok(s) }) }
}

func areNamespaces(all []string) bool {
	return len(all) > 0 && each(func(s string) bool { return len(content.IsDNS1123Label(s)) == 0 })(all)
}

// isTLSVersion accepts an empty name for the newest version: the existing operator passes it.
func isTLSVersion(name string) bool {
	_, known := httpserver.TLSVersion(name)
	return known || name == ""
}

// parseLocal returns an address, without a host on loopback. An empty one stays empty.
func parseLocal(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil || port == "" {
		return "", strconv.ErrSyntax
	}
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port), nil
}
