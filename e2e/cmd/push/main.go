// Command push pushes docker-archives, one for each architecture, to a registry as one image: an index that a node
// resolves to its own architecture. No container engine is needed for that.
//
//	go -C e2e run ./cmd/push registry.example.com/storage/hostpath-provisioner:v0.1.0 amd64.tar arm64.tar
//
// It logs in as docker and podman do, with what `docker login` or `podman login` stored.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const usage = `usage: push IMAGE ARCHIVE...
       push --check IMAGE       only check the name of the image`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "push: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New(usage)
	}
	if args[0] == "--check" {
		_, err := parseName(args[1])
		return err
	}
	tag, err := parseName(args[0])
	if err != nil {
		return err
	}
	index, err := newIndex(args[1:])
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("%s: %w", tag, err)
	}
	_, err = fmt.Fprintf(out, "pushed %s@%s\n", tag, digest)
	return err
}

// parseName refuses a name without a registry, which would mean a public one, and the placeholder of the manifests.
func parseName(image string) (name.Tag, error) {
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil || strings.HasSuffix(tag.RegistryStr(), ".invalid") {
		return name.Tag{}, fmt.Errorf("%q is not the name of an image that you can push; "+
			"name a registry of yours, a repository and a tag: make push IMAGE=registry.example.com/storage/hostpath-provisioner:v0.1.0", image)
	}
	return tag, nil
}

// newIndex returns the index of the archives' images. It returns an error if two of them are for the same platform.
func newIndex(archives []string) (v1.ImageIndex, error) {
	// A docker-archive holds images of docker's media types, so that is what the index has.
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	seen := map[string]string{}
	for _, archive := range archives {
		image, err := tarball.ImageFromPath(archive, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		platform := config.OS + "/" + config.Architecture
		if other, taken := seen[platform]; taken {
			return nil, fmt.Errorf("%s and %s are both for %s", other, archive, platform)
		}
		seen[platform] = archive
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()},
		})
	}
	return index, nil
}
