package release

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// parseName refuses a name without a registry, which would mean a public one, and the placeholder
// of the manifests.
func parseName(image string) (name.Tag, error) {
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil || strings.HasSuffix(tag.RegistryStr(), ".invalid") {
		return name.Tag{}, fmt.Errorf("%q is not the name of an image that you can push; "+
			"name a registry of yours and a repository, such as registry.example.com/storage/hostpath-provisioner, and a tag "+
			"or a version", image)
	}
	return tag, nil
}

// CheckPush returns an error if an image cannot have the name, or if the registry does not let the
// user of `docker login` or `podman login` push it. Ask before Make, which takes a minute.
func CheckPush(ctx context.Context, image string) error {
	tag, err := parseName(image)
	if err != nil {
		return err
	}
	if err := remote.CheckPushPermission(tag, authn.DefaultKeychain, http.DefaultTransport); err != nil {
		if answer := (*transport.Error)(nil); !errors.As(err, &answer) {
			return fmt.Errorf("%s: no registry answers there: %w", tag.Registry, err)
		}
		return fmt.Errorf("%s: log in with docker login or podman login: %w", tag.Registry, err)
	}
	return ctx.Err()
}

// Push pushes the image with its tag, and what refers to it. A version never gets another image: if
// the registry has one with another digest, Push returns an error and pushes nothing, unless
// Overwrite is set.
func (r *Release) Push(ctx context.Context) error {
	r.step("push %s", r.Name())
	tag, err := parseName(r.Name())
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if !r.Overwrite {
		if err := r.unchanged(tag, options); err != nil {
			return err
		}
	}
	// The tag comes last: an image that is found has its SBOMs and its provenance.
	digest := tag.Digest(r.Digest.String())
	if err := remote.WriteIndex(digest, r.Index, options...); err != nil {
		return fmt.Errorf("%s: %w", digest, err)
	}
	for _, artifact := range r.Artifacts {
		d, err := artifact.Digest()
		if err == nil {
			err = remote.Write(tag.Digest(d.String()), artifact, options...)
		}
		if err != nil {
			return fmt.Errorf("%s: what refers to it: %w", digest, err)
		}
	}
	if err := remote.Tag(tag, r.Index, options...); err != nil {
		return fmt.Errorf("%s: %w", tag, err)
	}
	return r.pushChart(options)
}

// pushChart pushes the chart, which names the image, after that. An image for tests has none.
func (r *Release) pushChart(options []remote.Option) error {
	if r.Chart == nil {
		return nil
	}
	tag, err := name.NewTag(r.chartName()+":"+r.chartVersion(), name.StrictValidation)
	if err != nil {
		return err
	}
	r.step("push %s", tag)
	if err := remote.Write(tag, r.Chart, options...); err != nil {
		return fmt.Errorf("%s: %w", tag, err)
	}
	return nil
}

// unchanged returns an error if the registry has another image with the tag.
func (r *Release) unchanged(tag name.Tag, options []remote.Option) error {
	there, err := remote.Head(tag, options...)
	var answer *transport.Error
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return nil
	case err != nil:
		return err
	case there.Digest != r.Digest:
		return fmt.Errorf("%s is there with the digest %s, and this one has %s; a version does not change, so choose another",
			tag, there.Digest, r.Digest)
	}
	return nil
}
