package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// whole are the forms whose objects nothing else uses: the file that installs one also removes it.
var whole = []string{"monitoring", "plugin", "policy"}

// writeManifests renders each form with the image's digest, and what removes it. Work is a directory
// in the checkout.
func (r *Release) writeManifests(ctx context.Context, work, files string) error {
	r.step("render the manifests")
	bin := filepath.Join(filepath.Dir(files), "bin")
	if err := errors.Join(install(ctx, bin, kustomizeTool), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	// A file that removes objects names the image, too: a file of a release has no placeholder.
	images := fmt.Sprintf("images:\n  - name: %s\n    newName: %s\n    digest: %s\n", placeholder, r.Repository, r.Digest)
	component, err := filepath.Rel(work, filepath.Join(r.Root, "manifests", "uninstall", "keep"))
	if err != nil {
		return err
	}
	keep := fmt.Sprintf("components: [%s]\n", component) + images
	for _, form := range Forms {
		overlay := images
		if form == "operator" {
			overlay += fmt.Sprintf(operatorRunbooks, r.page(runbooks+"%s.md"))
		}
		if err := r.render(ctx, bin, work, form, overlay, filepath.Join(files, "install-"+fileOf(form)), r.headOf(form)); err != nil {
			return err
		}
		if slices.Contains(whole, form) {
			continue
		}
		from := form
		if form == "csi-sidecars" { // the same objects, but for the DaemonSet's second container
			from = "csi"
		}
		if err := r.render(ctx, bin, work, from, keep, filepath.Join(files, "uninstall-"+fileOf(form)),
			r.uninstallHeadOf(form)); err != nil {
			return err
		}
	}
	return nil
}

// fileOf returns the end of the names of a form's files.
func fileOf(form string) string { return strings.ReplaceAll(form, "/", "-") + ".yaml" }

// headOf is the comment at the head of the file that installs a form.
func (r *Release) headOf(form string) string {
	head := fmt.Sprintf("# hostpath-provisioner %s, form %s: kubectl apply -f this file. The directory manifests/%s has the comments.\n",
		r.Version, form, form)
	if slices.Contains(whole, form) {
		return head
	}
	return head + fmt.Sprintf("# Never delete this file's objects as a whole: they include the namespace, and with it go claims and other forms. "+
		"uninstall-%s\n# has what may be deleted.\n", fileOf(form))
}

// uninstallHeadOf is the comment at the head of the file that removes a form.
func (r *Release) uninstallHeadOf(form string) string {
	before, page := "delete the claims, wait until their PVs are gone, and end the pods that use volumes", "docs/install.md"
	switch form {
	case "operator":
		before, page = "delete the resource of the operator, and wait until it is gone", "docs/operator.md"
	case "local-pv":
		page = "docs/raw-disks.md"
	}
	return fmt.Sprintf("# Removes the form %s of hostpath-provisioner %s: kubectl delete --ignore-not-found -f this file.\n"+
		"# Before: %s.\n# %s has why, and what remains.\n", form, r.Version, before, r.page(page+"#uninstall"))
}

// render writes what kustomize makes of a form with the fields of an overlay.
func (r *Release) render(ctx context.Context, bin, work, form, overlay, to, head string) error {
	base, err := filepath.Rel(work, filepath.Join(r.Root, "manifests", form))
	if err != nil {
		return err
	}
	overlay = fmt.Sprintf("resources: [%s]\n", base) + overlay
	if err := os.WriteFile(filepath.Join(work, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
		return err
	}
	text, err := run(ctx, nil, filepath.Join(bin, "kustomize"), "build", work)
	if err != nil {
		return err
	}
	if strings.Contains(overlay, placeholder) && strings.Contains(string(text), placeholder+":") {
		return fmt.Errorf("manifests/%s still has the image %s", form, placeholder)
	}
	return os.WriteFile(to, []byte(head+r.withPages(string(text))), 0o644)
}

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
