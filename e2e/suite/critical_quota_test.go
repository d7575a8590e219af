package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// limitsCritical has the API server admit pods of the critical classes only where a quota is for
// them, as GKE does.
const limitsCritical = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - resource: pods
          matchScopes:
            - scopeName: PriorityClass
              operator: In
              values: [system-node-critical, system-cluster-critical]
`

// Each form by itself has its pods admitted on a cluster that limits the critical priority classes.
func TestCriticalQuota(t *testing.T) {
	t.Parallel()
	config := filepath.Join(keptDir(t), "admission.yaml")
	if err := os.WriteFile(config, []byte(limitsCritical), 0o600); err != nil {
		t.Fatal(err)
	}
	u := &uninstaller{Scene: ownPlane(t, "--admission-control-config-file="+config).Scene(t)}
	pods, apps := u.Client.CoreV1().Pods(harness.Namespace), u.Client.AppsV1()
	for _, row := range []struct{ form, workload string }{
		{"csi", "hostpath-provisioner-csi"}, {"legacy", "hostpath-provisioner"}, {"local-pv", "hostpath-provisioner-disks"},
		{"local-path", "hostpath-provisioner-local-path"}, {"single-node", "hostpath-provisioner"}, {"operator", "hostpath-provisioner-operator"},
	} {
		u.must(u.run("kubectl -n hostpath-provisioner delete resourcequota --all"))
		admits := func() error {
			var template corev1.PodTemplateSpec
			if row.form == "operator" {
				d, err := apps.Deployments(harness.Namespace).Get(u.Context(), row.workload, metav1.GetOptions{})
				if err != nil {
					return err
				}
				template = d.Spec.Template
			} else {
				d, err := apps.DaemonSets(harness.Namespace).Get(u.Context(), row.workload, metav1.GetOptions{})
				if err != nil {
					return err
				}
				template = d.Spec.Template
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Spec: template.Spec}
			_, err := pods.Create(u.Context(), pod, metav1.CreateOptions{DryRun: dry})
			return err
		}
		u.apply(row.form)
		u.Eventually(row.form+" is admitted", admits)
		u.must(u.run("kubectl -n hostpath-provisioner delete resourcequota --all"))
		u.Eventually(row.form+" is refused without its quota", func() error {
			if answer := fmt.Sprint(admits()); !strings.Contains(answer, "insufficient quota to match these scopes") {
				return fmt.Errorf("not refused: %s", answer)
			}
			return nil
		})
	}
}
