// Command release makes releases and images: make release, make image, make push. docs/release.md
// describes releases.
//
//	go -C e2e run ./cmd/release make --version v1.2.3 --image registry.example.com/storage/hostpath-provisioner \
//	  --repository https://github.com/example/hostpath-provisioner
//	go -C e2e run ./cmd/release image registry.example.com/storage/hostpath-provisioner:test amd64 ../_artifacts/image.tar
//	go -C e2e run ./cmd/release push registry.example.com/storage/hostpath-provisioner:test
//
// It logs in to a registry with what `docker login` or `podman login` stored.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"kubevirt.io/hostpath-provisioner/e2e/release"
)

const usage = `usage: release make --version VERSION --image NAME --repository URL [--push] [--key FILE]
       release image NAME:TAG ARCH FILE     a docker-archive of the programs in bin
       release push [--check] NAME:TAG      the programs in bin for all architectures; --check only asks whether it may`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, "..", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// run runs a command in the checkout at root.
func run(ctx context.Context, root string, args []string, out io.Writer) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	switch {
	case len(args) > 1 && args[0] == "make":
		return makeRelease(ctx, root, args[1:], out)
	case len(args) == 4 && args[0] == "image":
		r, err := release.Local(ctx, root, args[1], out, args[2])
		if err != nil {
			return err
		}
		if err := r.WriteArchive(args[3]); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "wrote %s for linux/%s to %s\n", r.Name(), args[2], args[3])
		return err
	case len(args) == 3 && args[0] == "push" && args[1] == "--check":
		return release.CheckPush(ctx, args[2])
	case len(args) == 2 && args[0] == "push":
		r, err := release.Local(ctx, root, args[1], out, release.Architectures...)
		if err != nil {
			return err
		}
		if err := r.Push(ctx); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "pushed %s@%s\n", r.Name(), r.Digest)
		return err
	}
	return errors.New(usage)
}

func makeRelease(ctx context.Context, root string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("make", flag.ContinueOnError)
	o := release.Options{Root: root, Progress: out}
	flags.StringVar(&o.Version, "version", "", "the version: v1.2.3 or v1.2.3-rc.1")
	flags.StringVar(&o.Repository, "image", "", "the image's name without a tag: "+
		"registry.example.com/storage/hostpath-provisioner")
	flags.StringVar(&o.Project, "repository", "", "the address of the project's repository: "+
		"https://github.com/example/hostpath-provisioner")
	push := flags.Bool("push", false, "push the image")
	key := flags.String("key", "", "sign with this key of cosign, after the push")
	cosign := flags.String("cosign", "cosign", "the program that signs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q", flags.Args())
	}
	if *key != "" && !*push {
		return errors.New("a signature is kept beside the pushed image: give PUSH=1 with KEY")
	}
	o.Directory = filepath.Join(root, "_artifacts", "release", o.Version)
	// Asked first: all the rest takes a minute, and what is pushed stays.
	if *push {
		if err := release.CheckPush(ctx, o.Repository+":"+o.Version); err != nil {
			return err
		}
	}
	if *key != "" {
		if err := release.CheckSign(ctx, *cosign, *key); err != nil {
			return err
		}
	}
	begin := time.Now()
	r, err := release.Make(ctx, o)
	if err != nil {
		return err
	}
	if *push {
		if err := r.Push(ctx); err != nil {
			return err
		}
	}
	if *key != "" {
		if err := r.Sign(ctx, *cosign, *key); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s\n%s, after %.0f s\n", r.Pinned(), o.Directory, time.Since(begin).Seconds())
	return err
}
