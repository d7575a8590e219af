package suite

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const (
	webhookKind   = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	webhookName   = "hostpathprovisioner.kubevirt.io"
	webhookHost   = "hostpath-provisioner-operator-webhook-service." + harness.Namespace + ".svc"
	webhookSecret = "hostpath-provisioner-operator-webhook-service-cert"
)

// webhookDecides asks the operator what the API server would, with the certificate that the API
// server trusts. The resource has the pool local.
func webhookDecides(t *testing.T, o *operated) {
	o.pv("webhook", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: harness.Driver, VolumeHandle: "webhook",
		VolumeAttributes: map[string]string{harness.StoragePool: "local"}}})
	defer o.noPV("webhook")
	before := pools("local=/var/hpvolumes", "other=/srv/other")
	legacy := map[string]any{"pathConfig": map[string]any{"path": "/var/hpvolumes"}}
	deleted := installation(serving, pools("new=/srv/new"))
	deleted.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	onClaims := map[string]any{"storagePools": []any{map[string]any{"name": "local", "path": "/var/hpvolumes",
		"pvcTemplate": map[string]any{"accessModes": []any{"ReadWriteOnce"}}}}}
	o.Eventually("the operator's cache has the PV", func() error {
		answer, err := o.review(before, installation(serving, pools("other=/srv/other")))
		if err == nil && answer.Allowed {
			err = errors.New("a used pool may be removed")
		}
		return err
	})
	for name, row := range map[string]struct {
		before map[string]any
		now    *unstructured.Unstructured
		words  string // refused with these
		warns  string
	}{
		"removed":       {before: before, now: installation(serving, pools("other=/srv/other")), words: "pool local is in /var/hpvolumes, with 1 PV: webhook; delete them first"},
		"moved":         {before: before, now: installation(serving, pools("local=/srv/moved", "other=/srv/other")), words: "pool local is in /var/hpvolumes"},
		"onto a claim":  {before: before, now: installation(serving, onClaims), words: "pool local is in /var/hpvolumes, with 1 PV: webhook"},
		"off a claim":   {before: onClaims, now: installation(serving, before), words: "pool local is in /var/hpvolumes with pvcTemplate, with 1 PV: webhook"},
		"to pathConfig": {before: before, now: installation(serving, legacy), words: "pool local is in /var/hpvolumes"},
		"unused":        {before: before, now: installation(serving, pools("local=/var/hpvolumes/", "new=/srv/new"))},
		"to pools":      {before: legacy, now: installation(serving, pools("new=/srv/new"))},
		"deleted":       {before: before, now: deleted},
		"gate":          {before: before, now: installation(serving, with(before, "featureGates", []any{"X"})), warns: "feature gate X is unknown"},
		"second":        {now: installation("second", before), warns: "only one HostPathProvisioner is served, and " + serving + " is older"},
	} {
		answer, err := o.review(row.before, row.now)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Allowed != (row.words == "") || !strings.Contains(answer.Status.Message, row.words) || !strings.Contains(strings.Join(answer.Warnings, "\n"), row.warns) {
			t.Errorf("%s: %+v, want words %q and warnings %q", name, answer, row.words, row.warns)
		}
	}
}

// certificateRenewed has the certificate damaged: there is another one that the API server trusts,
// and the operator serves it.
func certificateRenewed(_ *testing.T, o *operated) {
	secrets := o.Client.CoreV1().Secrets(harness.Namespace)
	before, err := secrets.Get(o.Context(), webhookSecret, metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	if _, err := secrets.Patch(o.Context(), webhookSecret, types.MergePatchType, []byte(`{"data":{"tls.crt":"AAAA"}}`), metav1.PatchOptions{}); err != nil {
		o.Fatal(err)
	}
	o.Within(repaired, "another certificate", func() error {
		after, err := secrets.Get(o.Context(), webhookSecret, metav1.GetOptions{})
		if err == nil && (len(after.Data["tls.crt"]) < 100 || string(before.Data["ca.crt"]) == string(after.Data["ca.crt"])) {
			err = errors.New("it is damaged")
		}
		if err == nil {
			_, err = o.review(nil, installation("second", pools("local=/a")))
		}
		return err
	})
	o.edited(webhookKind, webhookName, "webhooks", func(object *unstructured.Unstructured) {
		hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		hooks[0].(map[string]any)["failurePolicy"] = "Fail"
		_ = unstructured.SetNestedSlice(object.Object, hooks, "webhooks") // it was one
	})
}

// decision is the operator's answer.
type decision struct {
	Allowed  bool
	Warnings []string
	Status   struct{ Message string }
}

// review asks the operator about a change, a new resource if there is no spec before.
func (o *operated) review(before map[string]any, now *unstructured.Unstructured) (answer decision, err error) {
	hooks, _, err := unstructured.NestedSlice(o.get(webhookKind, webhookName).Object, "webhooks")
	if err != nil || len(hooks) != 1 {
		return answer, fmt.Errorf("webhooks %v: %w", hooks, err)
	}
	config := hooks[0].(map[string]any)["clientConfig"].(map[string]any)
	text, _ := config["caBundle"].(string)
	authorities, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return answer, err
	}
	request := map[string]any{"uid": "1", "operation": "CREATE", "object": now.Object}
	if before != nil {
		request["operation"], request["oldObject"] = "UPDATE", installation(serving, before).Object
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	if err != nil {
		return answer, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: webhookHost}}}
	path, _, _ := unstructured.NestedString(config, "service", "path")
	response, err := client.Post("https://"+o.operator.Webhook+path, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	var review struct{ Response decision }
	err = json.Unmarshal(data, &review)
	return review.Response, err
}
