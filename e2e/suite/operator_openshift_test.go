package suite

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	constraintsKind = "security.openshift.io/v1/securitycontextconstraints"
	apiServerKind   = "config.openshift.io/v1/apiservers"
)

// sccExists has the API of OpenShift's constraints appear, with those of an older operator.
func sccExists(t *testing.T, o *operated) {
	o.healthy()
	o.apply("testdata/openshift.yaml")
	older := &unstructured.Unstructured{Object: map[string]any{"users": []any{}}}
	older.SetAPIVersion("security.openshift.io/v1")
	older.SetKind("SecurityContextConstraints")
	older.SetName("hostpath-provisioner")
	older.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "hostpath-provisioner-operator"})
	o.Eventually("constraints of an older operator created", func() error {
		_, err := o.kind(constraintsKind).Create(o.Context(), older, metav1.CreateOptions{})
		return err
	})
	o.Eventually("constraints", func() error {
		have, err := o.kind(constraintsKind).Get(o.Context(), daemons, metav1.GetOptions{})
		if err != nil {
			return err
		}
		users, _, _ := unstructured.NestedStringSlice(have.Object, "users")
		if !slices.Equal(users, []string{"system:serviceaccount:" + harness.Namespace + ":hostpath-provisioner-admin-csi"}) {
			return fmt.Errorf("users %v", users)
		}
		return nil
	})
	o.Eventually("constraints of the older operator removed", func() error { return gone(o, "hostpath-provisioner") })
	template := o.get("apps/v1/daemonsets", daemons)
	if pinned, _, _ := unstructured.NestedString(template.Object, "spec", "template", "metadata", "annotations", "openshift.io/required-scc"); pinned != daemons {
		t.Errorf("the pods require the constraints %q", pinned)
	}
	t.Run("modify", func(t *testing.T) {
		o.in(t).edited(constraintsKind, daemons, "volumes", func(object *unstructured.Unstructured) { object.Object["volumes"] = []any{"*"} })
	})
	t.Run("delete", func(t *testing.T) { deleted(constraintsKind, daemons)(t, o.in(t)) })
}

func gone(o *operated, name string) error {
	_, err := o.kind(constraintsKind).Get(o.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s is there", name), err)
}

// followsProfile changes OpenShift's TLS profile under the operator.
func followsProfile(_ *testing.T, o *operated) {
	o.healthy()
	o.minimum("VersionTLS12", tls.VersionTLS12)
	api := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"tlsSecurityProfile": map[string]any{"type": "Modern"}}}}
	api.SetAPIVersion("config.openshift.io/v1")
	api.SetKind("APIServer")
	api.SetName("cluster")
	if _, err := o.kind(apiServerKind).Create(o.Context(), api, metav1.CreateOptions{}); err != nil {
		o.Fatal(err)
	}
	o.minimum("VersionTLS13", tls.VersionTLS13)
	custom := `{"spec":{"tlsSecurityProfile":{"type":"Custom","custom":{"minTLSVersion":"VersionTLS11","ciphers":["ECDHE-ECDSA-AES128-GCM-SHA256"]}}}}`
	if _, err := o.kind(apiServerKind).Patch(o.Context(), "cluster", types.MergePatchType, []byte(custom), metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
	o.minimum("VersionTLS11", 0)
	if err := o.kind(apiServerKind).Delete(o.Context(), "cluster", metav1.DeleteOptions{}); err != nil {
		o.Fatal(err)
	}
	o.minimum("VersionTLS12", tls.VersionTLS12)
	o.healthy()
}

// minimum waits until the agents have the version, and the operator's addresses accept no older one
// than the number, unless it is 0.
func (o *operated) minimum(name string, version uint16) {
	o.Helper()
	o.Eventually(name, func() error {
		args := o.agentPod().Containers[0].Args
		if !slices.Contains(args, "--metrics-tls-version="+name) {
			return fmt.Errorf("arguments %v", args)
		}
		for _, address := range []string{o.operator.Webhook, o.operator.MetricsAddress()} {
			for offered := uint16(tls.VersionTLS11); version > 0 && offered <= tls.VersionTLS13; offered++ {
				err := handshake(address, offered)
				if served := err == nil; served != (offered >= version) || err != nil && !strings.Contains(err.Error(), "protocol version") {
					return errors.Join(fmt.Errorf("%s, a client with at most %x is served: %v", address, offered, served), err)
				}
			}
		}
		return nil
	})
}

// handshake connects with at most that version of TLS.
func handshake(address string, version uint16) error {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}) //nolint:gosec // an older client
	if err != nil {
		return err
	}
	return conn.Close()
}
