package release

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// How the image was built, as SLSA names it: https://slsa.dev/spec/v1.0/provenance
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
)

type (
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	parameters struct {
		Version string `json:"version"`
		Image   string `json:"image"`
		// Repository is that of the project.
		Repository string `json:"repository,omitempty"`
	}
	definition struct {
		BuildType    string            `json:"buildType"`
		External     parameters        `json:"externalParameters"`
		Internal     map[string]string `json:"internalParameters"`
		Dependencies []resource        `json:"resolvedDependencies"`
	}
	details struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	}
	predicate struct {
		Build definition `json:"buildDefinition"`
		Run   details    `json:"runDetails"`
	}
	statement struct {
		Type      string     `json:"_type"`
		Subject   []resource `json:"subject"`
		Predicate string     `json:"predicateType"`
		Content   predicate  `json:"predicate"`
	}
)

// writeProvenance states of which commit the index was made, with which toolchain. It has no time:
// another run states the same.
func (r *Release) writeProvenance(ctx context.Context, files string) error {
	toolchain, err := run(ctx, nil, "go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	return r.writeStatement(files, strings.TrimSpace(string(toolchain)))
}

// writeStatement writes provenance.json, and has it refer to the index.
func (r *Release) writeStatement(files, toolchain string) error {
	s := statement{Type: statementType, Predicate: predicateType,
		Subject: []resource{{Name: r.Repository, Digest: map[string]string{r.Digest.Algorithm: r.Digest.Hex}}}}
	s.Content.Build = definition{
		BuildType: r.page("docs/release.md"),
		External:  parameters{Version: r.Version, Image: r.Repository, Repository: r.Project},
		Internal: map[string]string{"go": toolchain, "sbom": sbomTool,
			"kustomize": kustomizeTool},
		Dependencies: []resource{{URI: "git+" + r.project() + "@" + r.Version,
			Digest: map[string]string{"gitCommit": r.Source.Commit}}},
	}
	s.Content.Run.Builder.ID = r.page("e2e/cmd/release")
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(files, "provenance.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	d, err := partial.Descriptor(r.Index)
	if err != nil {
		return err
	}
	return r.refer(*d, provenanceType, "provenance.json", text)
}
