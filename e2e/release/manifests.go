package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Forms are the directories of the manifests that a release renders. Overlays of a user's own name
// them at the release's tag.
var Forms = []string{
	"csi", "csi-sidecars", "distributions/k0s", "distributions/microk8s", "distributions/talos", "examples/both-modes", "legacy", "local-path", "local-path/k3s", "local-path/kind",
	"local-path/microk8s", "local-pv",
	"monitoring", "openshift", "openshift-csi", "operator", "plugin", "policy", "single-node",
}

// placeholder is the image of the manifests in the tree.
const placeholder = "registry.invalid/hostpath-provisioner"

// writeManifests renders each form with the image's digest. Work is a directory in the checkout.
func (r *Release) writeManifests(ctx context.Context, work, files string) error {
	r.step("render the manifests")
	bin := filepath.Join(filepath.Dir(files), "bin")
	if err := errors.Join(install(ctx, bin, kustomizeTool), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	for _, form := range Forms {
		base, err := filepath.Rel(work, filepath.Join(r.Root, "manifests", form))
		if err != nil {
			return err
		}
		overlay := fmt.Sprintf("resources: [%s]\nimages:\n  - name: %s\n    newName: %s\n    digest: %s\n", base, placeholder,
			r.Repository, r.Digest)
		if form == "operator" {
			overlay += operatorImage + fmt.Sprintf(operatorRunbooks, r.page(runbooks+"%s.md"))
		}
		if err := os.WriteFile(filepath.Join(work, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
			return err
		}
		text, err := run(ctx, nil, filepath.Join(bin, "kustomize"), "build", work)
		if err != nil {
			return err
		}
		text = []byte(r.withPages(string(text)))
		if strings.Contains(string(text), placeholder+":") {
			return fmt.Errorf("manifests/%s still has the image %s", form, placeholder)
		}
		head := fmt.Sprintf("# hostpath-provisioner %s, form %s: kubectl apply -f this file. The directory manifests/%s "+
			"has the comments.\n", r.Version, form, form)
		name := "install-" + strings.ReplaceAll(form, "/", "-") + ".yaml"
		if err := os.WriteFile(filepath.Join(files, name), append([]byte(head), text...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// operatorImage has the operator's agents run the image of the operator's container, after the
// overlay has set it.
const operatorImage = `replacements:
  - source: {kind: Deployment, name: hostpath-provisioner-operator, fieldPath: spec.template.spec.containers.0.image}
    targets:
      - select: {kind: Deployment, name: hostpath-provisioner-operator}
        fieldPaths: ["spec.template.spec.containers.0.env.[name=OPERATOR_IMAGE].value"]
`

// operatorRunbooks has the operator's rules name pages at %s.
const operatorRunbooks = `patches:
  - target: {kind: Deployment, name: hostpath-provisioner-operator}
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/env/-
        value: {name: RUNBOOK_URL_TEMPLATE, value: %q}
`

// writeResource writes the definition of the operator's resource, and its schema as editors read
// it.
func (r *Release) writeResource(files string) error {
	text, err := os.ReadFile(filepath.Join(r.Root, "manifests/operator/hostpathprovisioner.kubevirt.io_hostpathprovisioners.yaml"))
	if err != nil {
		return err
	}
	schema, err := jsonSchema(text)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(files, "crd.yaml"), text, 0o644),
		os.WriteFile(filepath.Join(files, "crd.schema.json"), schema, 0o644))
}

// jsonSchema returns the schema of the only version of a definition.
func jsonSchema(definition []byte) ([]byte, error) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, err
	}
	if len(crd.Spec.Versions) != 1 {
		return nil, fmt.Errorf("the definition has %d versions, and a release has one schema", len(crd.Spec.Versions))
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// copyMonitoring copies the rules and the dashboard for clusters that apply them by hand.
func (r *Release) copyMonitoring(files string) error {
	for from, to := range map[string]string{"prometheusrule.yaml": "rules.yaml", "dashboard.json": "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(r.Root, "manifests/monitoring", from))
		text = []byte(r.withPages(string(text)))
		if err := errors.Join(err, os.WriteFile(filepath.Join(files, to), text, 0o644)); err != nil {
			return err
		}
	}
	return nil
}
