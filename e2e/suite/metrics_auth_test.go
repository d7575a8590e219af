package suite

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// scrape asks for the metrics with a token, which may be none.
func scrape(address, token string) (status int, body string, err error) {
	request, err := http.NewRequest(http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, // it has signed itself
	}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

// tokenOf is the token of an account of the test's.
func tokenOf(s *harness.Scene, account string) string {
	s.Helper()
	path, err := s.Plane.ServiceAccountKubeconfig(s.Context(), s.Namespace, account)
	if err != nil {
		s.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		s.Fatal(err)
	}
	return config.BearerToken
}

// grant lets an account do what the rules say, and nobody else.
func grant(s *harness.Scene, name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	s.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-" + name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	_, err := s.Client.RbacV1().ClusterRoles().Create(s.Context(), role, metav1.CreateOptions{})
	if err == nil {
		_, err = s.Client.RbacV1().ClusterRoleBindings().Create(s.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// With --metrics-auth=token the API server says who may read the metrics.
func TestMetricsAuth(t *testing.T) {
	t.Parallel()
	s := env.Scene(t)
	node := s.Node("01")
	kubeconfig, err := s.Plane.ServiceAccountKubeconfig(t.Context(), s.Namespace, "agent")
	if err != nil {
		t.Fatal(err)
	}
	agent := rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "agent"}
	grant(s, "agent", agent, rolesOf(s, legacyRole)...)
	a := s.Later(node, harness.Options{Kubeconfig: kubeconfig})
	address := a.Address(8443)
	a.RestartAs(harness.Options{Kubeconfig: kubeconfig, Flags: []string{"--metrics-auth=token", "--metrics-address=" + address}})
	a.AwaitReady()
	if status, _, err := a.Get("/metrics"); err != nil || status != http.StatusNotFound {
		t.Errorf("metrics without TLS: %d, %v, want 404", status, err)
	}

	reader, stranger := tokenOf(s, "reader"), tokenOf(s, "stranger")
	grant(s, "reader", rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "reader"},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	if status, body, err := scrape(address, reader); err != nil || status != http.StatusServiceUnavailable || strings.Contains(body, "kubevirt_hpp_pool") {
		t.Errorf("by an agent that may not ask: %d, %v, want 503", status, err)
	}
	for _, file := range []string{"csi/namespace.yaml", "components/metrics-auth/rbac.yaml", "components/metrics-auth/reader.yaml"} {
		if err := s.Apply(file); err != nil {
			t.Fatal(err)
		}
	}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hostpath-provisioner-metrics-auth"}
	if _, err := s.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-asks"}, Subjects: []rbacv1.Subject{agent}, RoleRef: role,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("metrics", func() error {
		status, body, err := scrape(address, reader)
		if err == nil && (status != http.StatusOK || !strings.Contains(body, "kubevirt_hpp_pool_ready")) {
			err = fmt.Errorf("%d: %s", status, body)
		}
		return err
	})
	podMonitors := ""
	s.Eventually("the PodMonitor's token", func() error {
		secret, err := s.Client.CoreV1().Secrets(harness.Namespace).Get(t.Context(), "hostpath-provisioner-metrics-reader", metav1.GetOptions{})
		if podMonitors = string(secret.Data["token"]); err == nil && podMonitors == "" {
			err = errors.New("the Secret is empty")
		}
		return err
	})
	for _, test := range []struct {
		name, token string
		want        int
	}{
		{"the PodMonitor", podMonitors, http.StatusOK},
		{"nobody", "", http.StatusUnauthorized}, {"a wrong token", reader + "x", http.StatusUnauthorized}, {"a stranger", stranger, http.StatusForbidden},
		{"the reader again", reader, http.StatusOK},
	} {
		status, body, err := scrape(address, test.token)
		if err != nil || status != test.want || status != http.StatusOK && strings.Contains(body, "kubevirt_hpp_pool") {
			t.Errorf("%s: %d, %v, want %d", test.name, status, errors.Join(err), test.want)
		}
	}
}
