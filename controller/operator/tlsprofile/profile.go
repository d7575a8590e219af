// Package tlsprofile chooses the TLS settings of the operator's addresses: the oldest version and
// the cipher suites. The agents get the same version.
//
// Each setting has a source of its own, the first of these that has it: a variable of the
// operator's environment, the profile of the cluster, which OpenShift has in the APIServer named
// cluster, and the profile Intermediate. A name that is unknown is logged and not applied.
package tlsprofile

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/httpserver"
)

// Variables of the operator's environment.
const (
	// MinVersionVariable is a version, such as VersionTLS12.
	MinVersionVariable = "TLS_MIN_VERSION_OVERRIDE"
	// CiphersVariable has names of cipher suites, separated by commas, as IANA or OpenSSL write
	// them.
	CiphersVariable = "TLS_CIPHERS_OVERRIDE"
)

// Profile is the oldest version and the cipher suites of versions before TLS 1.3, whose suites
// crypto/tls chooses by itself. An empty field leaves the setting to the next source.
type Profile struct {
	// MinVersion is a name that Kubernetes uses, VersionTLS10 to VersionTLS13.
	MinVersion string
	// Ciphers are names of cipher suites, as IANA writes them.
	Ciphers []string
}

// over returns the profile with what it lacks from the other one.
func (p Profile) over(other Profile) Profile {
	p.MinVersion = cmp.Or(p.MinVersion, other.MinVersion)
	if len(p.Ciphers) == 0 {
		p.Ciphers = other.Ciphers
	}
	return p
}

// Of returns the profile of these names. It logs the ones that are unknown, and leaves them out.
func Of(source, minVersion string, ciphers []string) (p Profile) {
	minVersion = strings.TrimSpace(minVersion)
	if _, known := httpserver.TLSVersion(minVersion); known {
		p.MinVersion = minVersion
	} else if minVersion != "" {
		klog.ErrorS(nil, "Unknown TLS version; it is not applied", "source", source, "version", minVersion, "known",
			"VersionTLS10 to VersionTLS13")
	}
	for _, name := range ciphers {
		name = strings.TrimSpace(name)
		if iana, found := openSSL[name]; found {
			name = iana
		}
		switch {
		case name == "" || strings.HasPrefix(name, "TLS_AES_") || strings.HasPrefix(name, "TLS_CHACHA20_"): // of TLS 1.3
		case suite(name) == 0:
			klog.ErrorS(nil, "Unknown or unsupported cipher suite; it is not applied", "source", source, "suite", name)
		case !slices.Contains(p.Ciphers, name):
			p.Ciphers = append(p.Ciphers, name)
		}
	}
	return p
}

// Overrides returns the profile of the environment.
func Overrides(env func(string) string) Profile {
	return Of("the environment", env(MinVersionVariable), strings.Split(env(CiphersVariable), ","))
}

// Named returns one of the profiles that OpenShift names: Old, Intermediate or Modern.
func Named(name string) (Profile, error) {
	switch name {
	case "Modern":
		return Profile{MinVersion: "VersionTLS13", Ciphers: intermediate}, nil
	case "Intermediate":
		return Profile{MinVersion: "VersionTLS12", Ciphers: intermediate}, nil
	case "Old":
		return Profile{MinVersion: "VersionTLS10", Ciphers: slices.Concat(intermediate, old)}, nil
	}
	return Profile{}, fmt.Errorf("TLS profile %q is none of Old, Intermediate, Modern and Custom", name)
}

// Suites of the profiles, of those that crypto/tls has.
// https://wiki.mozilla.org/Security/Server_Side_TLS
var (
	intermediate = []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	}
	old = []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
		"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
		"TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA256",
		"TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	}
)

// openSSL has IANA's names of the suites by those of OpenSSL, which OpenShift's profiles use.
var openSSL = map[string]string{
	"ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256":   "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"ECDHE-ECDSA-AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384":   "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-RSA-CHACHA20-POLY1305":   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"ECDHE-ECDSA-AES128-SHA256":     "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-RSA-AES128-SHA256":       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
	"ECDHE-ECDSA-AES128-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"ECDHE-RSA-AES128-SHA":          "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"ECDHE-ECDSA-AES256-SHA":        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"ECDHE-RSA-AES256-SHA":          "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"AES128-GCM-SHA256":             "TLS_RSA_WITH_AES_128_GCM_SHA256",
	"AES256-GCM-SHA384":             "TLS_RSA_WITH_AES_256_GCM_SHA384",
	"AES128-SHA256":                 "TLS_RSA_WITH_AES_128_CBC_SHA256",
	"AES128-SHA":                    "TLS_RSA_WITH_AES_128_CBC_SHA",
	"AES256-SHA":                    "TLS_RSA_WITH_AES_256_CBC_SHA",
	"DES-CBC3-SHA":                  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
}

// suite returns the number of a cipher suite, 0 if crypto/tls does not have it.
func suite(name string) uint16 {
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if s.Name == name {
			return s.ID
		}
	}
	return 0
}
