package manifests_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/manifests/scctest"
)

// Admission takes the pods as they are: the agents' under their constraints, the operator's under
// those of every cluster.
func TestAdmitted(t *testing.T) {
	for at, by := range map[string]*scctest.Constraints{
		"openshift":     one[*scctest.Constraints](t, "openshift"),
		"openshift-csi": one[*scctest.Constraints](t, "openshift-csi"),
		"operator":      scctest.NonRootV2(),
	} {
		var pod corev1.PodSpec
		if at == "operator" {
			pod = one[*appsv1.Deployment](t, at).Spec.Template.Spec
		} else {
			pod = one[*appsv1.DaemonSet](t, at).Spec.Template.Spec
		}
		if why := by.Refusals(pod); len(why) > 0 {
			t.Errorf("%s: constraints %s refuse the pod: %q", at, by.Name, why)
		}
	}
}

// The two lists are in two files; admission refuses the pods when they differ.
func TestConstraintsFitTheDaemonSet(t *testing.T) {
	for at, want := range map[string]struct {
		name, account string
		privileged    bool
		seccomp       []string
	}{
		"openshift":     {name, account, false, []string{"runtime/default"}},
		"openshift-csi": {csiName, csiAccount, true, nil},
	} {
		scc, ds := one[*scctest.Constraints](t, at), one[*appsv1.DaemonSet](t, at)
		_, c := agent(t, at)
		// What is not asked for is neither allowed nor taken away.
		asked := c.SecurityContext.Capabilities
		if asked == nil {
			asked = &corev1.Capabilities{}
		}
		if got := scc.AllowedCapabilities; !slices.Equal(got, asked.Add) {
			t.Errorf("%s: allowed capabilities %v, the DaemonSet adds %v", at, got, asked.Add)
		}
		if got := scc.RequiredDropCapabilities; !slices.Equal(got, asked.Drop) {
			t.Errorf("%s: required to drop %v, the DaemonSet drops %v", at, got, asked.Drop)
		}
		if len(scc.DefaultAddCapabilities)+len(scc.Groups) != 0 {
			t.Errorf("%s: adds capabilities %v, groups %v; want none", at, scc.DefaultAddCapabilities, scc.Groups)
		}
		if users := []string{"system:serviceaccount:" + name + ":" + want.account}; !slices.Equal(scc.Users, users) {
			t.Errorf("%s: users %v, want %v", at, scc.Users, users)
		}
		if !scc.AllowHostDirVolumePlugin || !scc.ReadOnlyRootFilesystem {
			t.Errorf("%s: host directories have to be allowed, a writable root filesystem not", at)
		}
		// A privileged container that may not escalate is not valid.
		if asks := *c.SecurityContext.Privileged; asks != want.privileged || scc.AllowPrivilegedContainer != asks ||
			scc.AllowPrivilegeEscalation == nil || *scc.AllowPrivilegeEscalation != asks {
			t.Errorf("%s: the DaemonSet is privileged: %v; allowed: %v, %v",
				at, asks, scc.AllowPrivilegedContainer, scc.AllowPrivilegeEscalation)
		}
		if scc.AllowHostIPC || scc.AllowHostNetwork || scc.AllowHostPID || scc.AllowHostPorts {
			t.Errorf("%s: allows what the DaemonSet does not ask for", at)
		}
		for _, s := range []scctest.Strategy{scc.RunAsUser, scc.SELinuxContext, scc.FSGroup, scc.SupplementalGroups} {
			if s.Type != "RunAsAny" {
				t.Errorf("%s: strategy %q would replace what the pod asks for", at, s.Type)
			}
		}
		if asks := c.SecurityContext.SeccompProfile != nil; !slices.Equal(scc.SeccompProfiles, want.seccomp) || asks != (want.seccomp != nil) {
			t.Errorf("%s: seccomp profiles %v, the DaemonSet asks: %v", at, scc.SeccompProfiles, asks)
		}
		if got := strings.Join(scc.Volumes, " "); got != "hostPath projected" {
			t.Errorf("%s: volumes %q, want the directories and the token", at, got)
		}
		if pinned := ds.Spec.Template.Annotations["openshift.io/required-scc"]; pinned != scc.Name || scc.Name != want.name {
			t.Errorf("%s: the pods require %q, the constraints are %q, want %q", at, pinned, scc.Name, want.name)
		}
		if selector, given := one[*corev1.Namespace](t, at).Annotations["openshift.io/node-selector"]; !given || selector != "" {
			t.Errorf("%s: a default node selector could leave nodes without an agent", at)
		}
	}
}
