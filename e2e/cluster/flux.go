package cluster

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
)

// The library with which Flux applies objects. It needs newer versions of what the product links.
const (
	fluxPath    = "github.com/fluxcd/pkg/ssa"
	fluxVersion = "v0.78.0"
)

//go:embed flux/main.go
var fluxSource string

// BuildFlux returns a program that applies, compares and prunes objects as Flux does; flux/main.go
// describes its arguments. If it is not in the cache, BuildFlux compiles it, which takes minutes.
func BuildFlux(ctx context.Context, log io.Writer) (string, error) {
	sum := sha256.Sum256([]byte(fluxSource))
	return cachedProgram(ctx, log, "flux", fmt.Sprintf("%s-%x", fluxVersion, sum[:4]), func(ctx context.Context, src, program string) error {
		err := writeFile(src, "main.go", fluxSource)
		if err == nil { // by its file's name: its own build tag leaves it out
			err = buildWith(ctx, src, program, "main.go", fluxPath, fluxVersion)
		}
		return err
	})
}
