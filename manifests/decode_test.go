package manifests_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/manifests/scctest"
)

// kustomization has the fields that our files use. A new field is added here on purpose.
type kustomization struct {
	metav1.TypeMeta `json:",inline"`

	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Images     []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
	Labels []struct {
		IncludeSelectors bool              `json:"includeSelectors"`
		IncludeTemplates bool              `json:"includeTemplates"`
		Pairs            map[string]string `json:"pairs"`
	} `json:"labels"`
	Patches []struct {
		Path    string            `json:"path"`
		Patch   string            `json:"patch"`
		Target  map[string]string `json:"target"`
		Options map[string]bool   `json:"options"`
	} `json:"patches"`
	Replacements       []any       `json:"replacements"`
	ConfigMapGenerator []generator `json:"configMapGenerator"`
}

// generator is a ConfigMap that is made of files beside the kustomization.
type generator struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Files     []string `json:"files"`
	Options   struct {
		DisableNameSuffixHash bool              `json:"disableNameSuffixHash"`
		Labels                map[string]string `json:"labels"`
	} `json:"options"`
}

// monitor is an object of the Prometheus operator, as far as ours go.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []endpoint           `json:"podMetricsEndpoints"`
		Endpoints           []endpoint           `json:"endpoints"`
		Groups              []any                `json:"groups"` // promtool checks them
	} `json:"spec"`
}

type endpoint struct {
	Port, Scheme  string
	HonorLabels   bool
	Authorization *struct {
		Credentials corev1.SecretKeySelector
	}
	TLSConfig struct {
		InsecureSkipVerify bool
		MinVersion         string
	}
	Relabelings []struct {
		SourceLabels  []string
		TargetLabel   string
		Regex, Action string
	}
}

// userVolume is a document of Talos' machine configuration, as far as ours goes:
// https://www.talos.dev/v1.12/reference/configuration/block/uservolumeconfig
type userVolume struct {
	metav1.TypeMeta `json:",inline"`
	Name            string `json:"name"`
	Provisioning    struct {
		DiskSelector struct {
			Match string `json:"match"`
		} `json:"diskSelector"`
		MinSize string `json:"minSize"`
		Grow    bool   `json:"grow"`
	} `json:"provisioning"`
	Filesystem struct {
		Type                string `json:"type"`
		ProjectQuotaSupport bool   `json:"projectQuotaSupport"`
	} `json:"filesystem"`
}

// prometheus is a file of Prometheus: its configuration or rules.
type prometheus struct {
	Groups        []any    `json:"groups"`
	RuleFiles     []string `json:"rule_files"`
	ScrapeConfigs []scrape `json:"scrape_configs"`
}

// scrape is a job of Prometheus.
type scrape struct {
	JobName     string         `json:"job_name"`
	HonorLabels bool           `json:"honor_labels"`
	Scheme      string         `json:"scheme"`
	TLSConfig   map[string]any `json:"tls_config"`
	Discovery   []struct {
		Role       string `json:"role"`
		Namespaces struct {
			Names []string `json:"names"`
		} `json:"namespaces"`
	} `json:"kubernetes_sd_configs"`
	Relabel []struct {
		SourceLabels []string `json:"source_labels"`
		Regex        string   `json:"regex"`
		Action       string   `json:"action"`
		TargetLabel  string   `json:"target_label"`
	} `json:"relabel_configs"`
}

// empty returns an object of the kind to decode into, or nil for a kind that we do not ship.
func empty(kind string) any {
	switch kind {
	case "":
		return &prometheus{}
	case "ConfigMap":
		return &corev1.ConfigMap{}
	case "CSIDriver":
		return &storagev1.CSIDriver{}
	case "ClusterRole":
		return &rbacv1.ClusterRole{}
	case "ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	case "CustomResourceDefinition":
		return &map[string]any{} // generated; the API server decodes it in tests
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	case "Component", "Kustomization":
		return &kustomization{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "HostPathProvisioner":
		return &v1beta1.HostPathProvisioner{}
	case "Namespace":
		return &corev1.Namespace{}
	case "NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "PersistentVolumeClaim":
		return &corev1.PersistentVolumeClaim{}
	case "Pod":
		return &corev1.Pod{}
	case "PodMonitor", "PrometheusRule", "ServiceMonitor":
		return &monitor{}
	case "LimitRange":
		return &corev1.LimitRange{}
	case "ResourceQuota":
		return &corev1.ResourceQuota{}
	case "Role":
		return &rbacv1.Role{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	case "Secret":
		return &corev1.Secret{}
	case "SecurityContextConstraints":
		return &scctest.Constraints{}
	case "Service":
		return &corev1.Service{}
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "StatefulSet":
		return &appsv1.StatefulSet{}
	case "StorageClass":
		return &storagev1.StorageClass{}
	case "UserVolumeConfig":
		return &userVolume{}
	case "ValidatingWebhookConfiguration":
		return &admissionv1.ValidatingWebhookConfiguration{}
	case "ValidatingAdmissionPolicy":
		return &admissionv1.ValidatingAdmissionPolicy{}
	case "ValidatingAdmissionPolicyBinding":
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	}
	return nil
}

// decode returns the objects of a file. A field that its kind does not have is an error: the API
// server would drop it without a word.
func decode(t *testing.T, file string) []any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// kustomize's own word in a patch; no kind has such a field.
	if path.Base(file) != "kustomization.yaml" {
		data = bytes.ReplaceAll(data, []byte("$patch: delete"), nil)
	}
	var objects []any
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		object := empty(meta.Kind)
		if object == nil {
			t.Fatalf("%s: kind %q is not one that we ship", file, meta.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %s: %v", file, meta.Kind, err)
		}
		objects = append(objects, object)
	}
	return objects
}

// all returns the objects of one kind in a file or a kustomization's directory, and fails when
// there is none.
func all[T any](t *testing.T, at string) []T {
	t.Helper()
	var found []T
	for _, object := range load(t, at) {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s: has no %T", at, *new(T))
	}
	return found
}

// one returns the only object of one kind in a file or a kustomization's directory.
func one[T any](t *testing.T, at string) T {
	t.Helper()
	found := all[T](t, at)
	if len(found) != 1 {
		t.Fatalf("%s: has %d of %T", at, len(found), found[0])
	}
	return found[0]
}

// files returns every YAML file below this directory.
func files(t *testing.T) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		if d.IsDir() && (file == "chart" || file == "testdata") { // templates, values, and what tests compare
			return fs.SkipDir
		}
		if ext := path.Ext(file); ext == ".yaml" || ext == ".yml" {
			found = append(found, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
