package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// passwordVariable is where cosign takes the password of its key from.
const passwordVariable = "COSIGN_PASSWORD"

// CheckSign returns an error if Sign would fail: if cosign is missing or too old, or if it cannot
// read the key with the password in COSIGN_PASSWORD. Ask before Push, because what is pushed must
// be signed.
func CheckSign(ctx context.Context, cosign, key string) error {
	if _, err := exec.LookPath(cosign); err != nil {
		return fmt.Errorf("sign: %w; install version 3 of it, https://github.com/sigstore/cosign, into a directory of PATH", err)
	}
	if _, set := os.LookupEnv(passwordVariable); !set {
		return fmt.Errorf("sign with %s: no password; set %s, to nothing if the key has none", key, passwordVariable)
	}
	return withSigner(ctx, cosign, key, func(s *signer, work string) error {
		file := filepath.Join(work, "file")
		if err := os.WriteFile(file, []byte("a trial"), 0o600); err != nil {
			return err
		}
		if err := s.file(ctx, file); err != nil {
			return fmt.Errorf("sign with %s: it must be a private key of cosign generate-key-pair, and %s its password: %w",
				key, passwordVariable, err)
		}
		return nil
	})
}

// Sign signs the image, the chart and SHA256SUMS with a key of cosign, whose password is in
// COSIGN_PASSWORD, and the provenance as an attestation of the image. The signatures go to the
// registry, that of the sums into SHA256SUMS.sigstore.json. No other server is asked or informed.
func (r *Release) Sign(ctx context.Context, cosign, key string) error {
	r.step("sign %s", r.Pinned())
	chart, err := r.pinnedChart()
	if err != nil {
		return err
	}
	return withSigner(ctx, cosign, key, func(s *signer, work string) error {
		errs := []error{
			s.sign(ctx, "sign", r.Pinned()),
			s.attest(ctx, filepath.Join(r.Directory, "provenance.json"), r.Pinned(), work),
			s.file(ctx, filepath.Join(r.Directory, "SHA256SUMS")),
		}
		if chart != "" {
			errs = append(errs, s.sign(ctx, "sign", chart))
		}
		return errors.Join(errs...)
	})
}

// signer runs cosign with a key.
type signer struct {
	cosign, key string
	// services and roots are files that name no service and no authority. Without them cosign
	// fetches those of a public installation.
	services, roots string
}

// withSigner calls f with a signer, and with a directory that is removed afterwards.
func withSigner(ctx context.Context, cosign, key string, f func(s *signer, work string) error) error {
	work, err := os.MkdirTemp("", "hpp-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	s := &signer{cosign: cosign, key: key, services: filepath.Join(work, "signing-config.json"),
		roots: filepath.Join(work, "trusted-root.json")}
	for command, file := range map[string]string{"signing-config": s.services, "trusted-root": s.roots} {
		if _, err := run(ctx, nil, cosign, command, "create", "--out", file); err != nil {
			return fmt.Errorf("sign: version 3 of cosign is needed: %w", err)
		}
	}
	return f(s, work)
}

// sign runs a command of cosign that signs.
func (s *signer) sign(ctx context.Context, args ...string) error {
	_, err := run(ctx, nil, s.cosign, append(args, "--yes", "--key", s.key, "--signing-config", s.services, "--trusted-root", s.roots)...)
	return err
}

// attest signs what a statement in a file says about an image. cosign makes the statement again, of its
// predicate and of the image's digest.
func (s *signer) attest(ctx context.Context, file, image, work string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var parts struct {
		Predicate json.RawMessage `json:"predicate"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	predicate := filepath.Join(work, "predicate.json")
	if err := os.WriteFile(predicate, parts.Predicate, 0o600); err != nil {
		return err
	}
	return s.sign(ctx, "attest", image, "--type", "slsaprovenance1", "--predicate", predicate)
}

// file signs a file, and writes the signature beside it.
func (s *signer) file(ctx context.Context, file string) error {
	return s.sign(ctx, "sign-blob", file, "--bundle", file+".sigstore.json")
}
