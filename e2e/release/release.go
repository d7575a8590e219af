// Package release makes a release of a commit: the image of the agent and its operator for each
// architecture, the manifests with the image's digest, and what says how they were made.
//
// Two releases of one commit, version and image name are the same bytes, wherever their checkouts
// are. Programs are built without paths and without the state of the checkout, every time is the
// commit's, and the tools have fixed versions. Only the Go toolchain is the machine's: the
// provenance names it. Signatures need a key and differ each time.
//
// A release is a directory with these files; docs/release.md says what they are for:
//
//	hostpath-provisioner-VERSION-oci.tar   the image, its SBOMs and its provenance, as an OCI image layout
//	images.txt                             the names and digests of image and chart, and other images of the forms
//	hostpath-provisioner-VERSION.tgz       the Helm chart, with the digest
//	kubectl-hpp-VERSION-OS-ARCH.tar.gz     the plugin of kubectl with its licenses; .zip for Windows
//	hpp.yaml                               the plugin's manifest for krew
//	install-FORM.yaml                      each form of the manifests, with the digest
//	uninstall-FORM.yaml                    what may be deleted to remove it
//	crd.yaml, crd.schema.json              the operator's resource, and a JSON schema of it
//	rules.yaml, dashboard.json             alerts and the dashboard
//	PROGRAM-linux-ARCH.cdx.json            an SBOM in the CycloneDX format for each program
//	provenance.json                        a statement in the format of SLSA
//	NOTES.md                               the version's part of the changelog
//	SHA256SUMS                             the sums of all the other files
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Architectures are those that an image is built for.
var Architectures = []string{"amd64", "arm64"}

// Options are what a release is made of.
type Options struct {
	// Root is the directory of the checkout.
	Root string
	// Version is a semantic version with a leading v: v1.2.3 or v1.2.3-rc.1.
	Version string
	// Repository is the name of the image without a tag:
	// registry.example.com/storage/hostpath-provisioner.
	Repository string
	// Project is the address of the project's repository, from which people download the release and
	// read its pages at the version's tag: https://github.com/example/hostpath-provisioner. It may be
	// empty for a version before a release.
	Project string
	// Directory is where the files go. It must not exist.
	Directory string
	// Overwrite lets Push replace another image with the version, as of a build for tests.
	Overwrite bool
	// Progress gets a line for each step that begins.
	Progress io.Writer
}

// Release is what Make made.
type Release struct {
	Options
	// Source is the commit.
	Source Source
	// Index is the image for all architectures.
	Index v1.ImageIndex
	// Digest is the digest of Index.
	Digest v1.Hash
	// Chart is the Helm chart, as a registry has it.
	Chart v1.Image
	// Artifacts are the SBOMs and the provenance, which refer to the image or to the index.
	Artifacts []v1.Image
}

// Make writes the files of a release. It returns an error, and leaves no directory, if the checkout
// has changes that are not committed, if the version is not one, if a tag of its name is on another
// commit, or if a step fails.
func Make(ctx context.Context, o Options) (r *Release, err error) {
	if _, err := os.Lstat(o.Directory); err == nil {
		return nil, fmt.Errorf("%s is there: remove it to make the release again", o.Directory)
	}
	if _, err := parseName(o.Repository + ":" + cmp.Or(o.Version, "v0.0.0")); err != nil {
		return nil, err
	}
	if err := checkProject(o.Project, o.Version); err != nil {
		return nil, err
	}
	r = &Release{Options: o}
	if r.Source, err = readSource(ctx, o.Root, o.Version); err != nil {
		return nil, err
	}
	notes, err := readNotes(filepath.Join(o.Root, "CHANGELOG.md"), o.Version)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(o.Directory), 0o755); err != nil {
		return nil, err
	}
	// A directory under its own name is whole. Made in the checkout, where manifests can be named
	// by relative paths.
	work, err := os.MkdirTemp(filepath.Dir(o.Directory), ".release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	files := filepath.Join(work, "files")
	if err := errors.Join(os.Chmod(work, 0o755), os.Mkdir(files, 0o755),
		r.writeFiles(ctx, work, files, notes)); err != nil {
		return nil, err
	}
	return r, os.Rename(files, o.Directory)
}

// writeFiles does all the steps. Work is a directory for what is no part of the release.
func (r *Release) writeFiles(ctx context.Context, work, files, notes string) error {
	programs, err := r.build(ctx, filepath.Join(work, "programs"))
	if err != nil {
		return err
	}
	r.step("put the image together")
	if err := r.assemble(programs, Architectures); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return r.writeSBOMs(ctx, programs, files) },
		func() error { return r.writeLicenses(ctx, files) },
		func() error { return r.writeProvenance(ctx, files) },
		func() error { return r.writeLayout(filepath.Join(work, "layout"), files) },
		func() error { return r.writeChart(files) },
		func() error { return r.writePlugin(ctx, filepath.Join(work, "plugin"), files) },
		func() error { return r.writeManifests(ctx, filepath.Join(work, "overlay"), files) },
		func() error { return r.writeResource(files) },
		func() error { return r.copyMonitoring(files) },
		func() error { return os.WriteFile(filepath.Join(files, "NOTES.md"), []byte(notes), 0o644) },
		func() error { return r.writeImages(files) },
		func() error { return writeSums(files) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the image's name with the tag.
func (r *Release) Name() string { return r.Repository + ":" + r.Version }

// Pinned returns the image's name with the digest.
func (r *Release) Pinned() string { return r.Repository + "@" + r.Digest.String() }

// archive is the name of the file with the image.
func (r *Release) archive() string { return "hostpath-provisioner-" + r.Version + "-oci.tar" }

// writeImages writes images.txt: a line without # is an image that a file of the release names.
func (r *Release) writeImages(files string) error {
	others, err := r.otherImages(files)
	if err != nil {
		return err
	}
	chart, err := r.pinnedChart()
	if err != nil {
		return err
	}
	text := "# The Helm chart, which is no image of a container:\n#   " + chart + "\n" + r.images()
	for _, o := range others {
		text += o + "\n"
	}
	return os.WriteFile(filepath.Join(files, "images.txt"), []byte(text), 0o644)
}

// otherImages returns the images of other projects in the files that install a form, sorted.
func (r *Release) otherImages(files string) (all []string, err error) {
	names, err := filepath.Glob(filepath.Join(files, "install-*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			_, image, found := strings.Cut(line, " image: ")
			if image = strings.TrimSpace(image); found && image != r.Pinned() {
				all = append(all, image)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// images is the text of images.txt about the image of this release.
func (r *Release) images() string {
	return fmt.Sprintf(`# The one image of this release. Those of other projects, which some forms have beside it, stand below. For nodes
# without a way to its registry, copy it to yours with its SBOMs, provenance and signatures, and replace its name in
# the file that you install:
#   oras cp --recursive %[5]s registry.example.com/storage/hostpath-provisioner:%[4]s
# The archive has the same image, SBOMs and provenance, but no signatures: that of SHA256SUMS is for its bytes:
#   oras cp --recursive --from-oci-layout %[3]s:%[4]s registry.example.com/storage/hostpath-provisioner:%[4]s
# Without any registry, import it on each node, and give it the name that the manifests have:
#   ctr -n k8s.io images import %[3]s
#   ctr -n k8s.io images tag %[1]s %[5]s
%[1]s@%[2]s
`, r.Name(), r.Digest, r.archive(), r.Version, r.Pinned())
}

// step tells what begins.
func (r *Release) step(format string, args ...any) {
	fmt.Fprintf(r.Progress, "==> "+format+"\n", args...)
}

// epoch is the commit's time, which every file and every part of the image has.
func (r *Release) epoch() time.Time { return r.Source.Time }
