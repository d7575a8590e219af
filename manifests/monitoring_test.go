package manifests_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The component turns tokens on in each form: the agent gets both settings and a port, and its
// account may ask the API server about tokens. Without that permission every scrape fails.
func TestMetricsAuthFitsEachForm(t *testing.T) {
	for _, dir := range []string{"examples/metrics-auth", "examples/metrics-auth-csi", "examples/monitoring"} {
		pod, c := agent(t, dir)
		env := map[string]string{}
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
		if env["HPP_METRICS_ADDRESS"] != ":8443" || env["HPP_METRICS_AUTH"] != "token" {
			t.Errorf("%s: environment %v", dir, env)
		}
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" && p.ContainerPort == 8443 }) {
			t.Errorf("%s: ports %v", dir, c.Ports)
		}
		asks := false
		for _, b := range all[*rbacv1.ClusterRoleBinding](t, dir) {
			asks = asks || b.RoleRef.Name == "hostpath-provisioner-metrics-auth" && slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
				return s.Name == pod.ServiceAccountName && s.Namespace == name
			})
		}
		if !asks {
			t.Errorf("%s: account %s may not review tokens", dir, pod.ServiceAccountName)
		}
	}
}

// Prometheus finds the port and the token where the PodMonitor says, and the label namespace of a
// claim stays what it is, whichever object it is scraped by.
func TestMonitorsFitTheAgents(t *testing.T) {
	for dir, port := range map[string]string{"monitoring": "http", "examples/monitoring": "metrics"} {
		for _, m := range all[*monitor](t, dir) {
			if m.Kind != "PodMonitor" {
				continue
			}
			e := m.Spec.PodMetricsEndpoints
			if port == "metrics" {
				disks := one[*appsv1.DaemonSet](t, disksDir)
				if len(e) != 2 || e[1].Port != disks.Spec.Template.Spec.Containers[0].Ports[0].Name || !e[1].HonorLabels || len(e[1].Relabelings) != 2 ||
					e[1].Relabelings[0].Regex != disks.Spec.Template.Labels["k8s-app"] || e[1].Relabelings[0].Action != "keep" || e[1].Relabelings[1].TargetLabel != "node" {
					t.Fatalf("%s: the agents of raw disks, which have no tokens, have the endpoint %+v", dir, e)
				}
				e = e[:1]
			}
			if len(e) != 1 || e[0].Port != port || !e[0].HonorLabels || len(e[0].Relabelings) != 1 || e[0].Relabelings[0].TargetLabel != "node" {
				t.Errorf("%s: endpoints %+v", dir, e)
			}
			if port == "http" {
				continue
			}
			secret := one[*corev1.Secret](t, dir)
			if a := e[0].Authorization; a == nil || a.Credentials.Name != secret.Name || secret.Namespace != m.Namespace || e[0].Scheme != "https" {
				t.Errorf("%s: authorization %+v, the Secret is %s/%s", dir, a, secret.Namespace, secret.Name)
			}
		}
	}
	if m := one[*monitor](t, "monitoring/operator/servicemonitor.yaml"); !m.Spec.Endpoints[0].HonorLabels {
		t.Error("the operator's ServiceMonitor renames the label namespace")
	}
	data := one[*corev1.ConfigMap](t, "monitoring")
	if data.Labels["grafana_dashboard"] != "1" || data.Data["dashboard.json"] == "" {
		t.Errorf("the dashboard's ConfigMap has labels %v and %d keys", data.Labels, len(data.Data))
	}
}

// A Prometheus without the Prometheus operator has a job for each port that has metrics, and none for
// one that has them no more: its targets would be down, and HPPAgentDown would fire. The labels are
// those that the rules use.
func TestPrometheusScrapesThePortsWithMetrics(t *testing.T) {
	const port = "__meta_kubernetes_pod_container_port_name"
	disks := one[*appsv1.DaemonSet](t, disksDir).Spec.Template.Labels["k8s-app"]
	for file, want := range map[string][]string{
		"prometheus.yaml":       {"[" + port + "] http"},
		"prometheus-https.yaml": {"[" + port + "] metrics", "[__meta_kubernetes_pod_label_k8s_app " + port + "] " + disks + ";http"},
	} {
		var got []string
		for _, job := range one[*prometheus](t, "monitoring/prometheus/"+file).ScrapeConfigs {
			keep := job.Relabel[0]
			got = append(got, fmt.Sprint(keep.SourceLabels, " ", keep.Regex))
			labels := map[string]string{}
			for _, r := range job.Relabel[1:] {
				labels[r.TargetLabel] = r.SourceLabels[0]
			}
			if !job.HonorLabels || keep.Action != "keep" || labels["node"] != "__meta_kubernetes_pod_node_name" ||
				labels["pod"] != "__meta_kubernetes_pod_name" || labels["namespace"] != "__meta_kubernetes_namespace" {
				t.Errorf("%s: job %+v", file, job)
			}
			if https := keep.Regex == "metrics"; https != (job.Scheme == "https") || https != (job.TLSConfig["insecure_skip_verify"] == true) {
				t.Errorf("%s: job %s scrapes with scheme %q and TLS %v", file, job.JobName, job.Scheme, job.TLSConfig)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s keeps %q, want %q", file, got, want)
		}
	}
}

// The policy selects the agents of each form, and lets Prometheus reach the ports that they have.
func TestNetworkPolicySelectsTheAgents(t *testing.T) {
	policy := one[*networkingv1.NetworkPolicy](t, "components/network-policy")
	var ports []int32
	for _, p := range policy.Spec.Ingress[0].Ports {
		ports = append(ports, p.Port.IntVal)
	}
	for _, dir := range []string{"csi", "legacy", "local-path/agent"} {
		labels := one[*kustomization](t, dir+"/kustomization.yaml").Labels[0].Pairs
		for key, value := range policy.Spec.PodSelector.MatchLabels {
			if labels[key] != value {
				t.Errorf("%s: its pods have the labels %v, the policy selects %s=%s", dir, labels, key, value)
			}
		}
	}
	for _, dir := range []string{"examples/monitoring", disksDir} {
		_, c := agent(t, dir)
		for _, p := range c.Ports {
			if !slices.Contains(ports, p.ContainerPort) {
				t.Errorf("%s: the policy denies port %d to Prometheus", dir, p.ContainerPort)
			}
		}
	}
}
