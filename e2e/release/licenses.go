package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// permissive are the licenses that a module of a program may have, by their SPDX identifiers: they
// ask for their text and notices alone, which LICENSES.txt has.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// covered is how much of a file must be the text of known licenses, in percent: the rest are names
// and years.
const covered = 75

// licensed is a module in the programs, with the files of its licenses and notices.
type licensed struct {
	path, version string
	ids           []string          // sorted
	files         map[string]string // their texts by their names
}

// packaged are the fields of `go list -deps -json` that are read.
type packaged struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// licenses returns the modules that are in the programs of any of the platforms, Go's standard
// library first. The error names each module whose license is unknown or not permissive.
func licenses(ctx context.Context, root string, on []platform, programs ...string) ([]*licensed, error) {
	goroot, err := run(ctx, nil, "go", "-C", root, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	std := &licensed{path: "std", version: "the Go standard library"}
	failed := []error{std.read(strings.TrimSpace(string(goroot)), "LICENSE", "PATENTS")}
	all := map[string]*licensed{}
	for _, p := range on {
		packages, err := linked(ctx, root, p, programs)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			m := p.Module
			if all[m.Path] == nil {
				all[m.Path] = &licensed{path: m.Path, version: m.Version}
			}
			// Code that a module has copied from others has its license in its own directory.
			for dir := p.Dir; strings.HasPrefix(dir, m.Dir); dir = filepath.Dir(dir) {
				failed = append(failed, all[m.Path].readAll(m.Dir, dir))
			}
		}
	}
	list := []*licensed{std}
	for _, m := range all {
		list = append(list, m)
	}
	slices.SortFunc(list[1:], func(a, b *licensed) int { return strings.Compare(a.path, b.path) })
	for _, m := range list {
		failed = append(failed, m.check())
	}
	return list, errors.Join(failed...)
}

// linked returns the packages of other modules in the programs for a platform.
func linked(ctx context.Context, root string, on platform, programs []string) (all []packaged, err error) {
	env := slices.Concat(fixed, []string{"GOOS=" + on.os, "GOARCH=" + on.arch, "GOFLAGS="})
	args := []string{"-C", root, "list", "-deps", "-tags=grpcnotrace", "-json=Dir,Standard,Module"}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	out, err := run(ctx, env, "go", args...)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p packaged
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if !p.Standard && p.Module != nil && !p.Module.Main {
			all = append(all, p)
		}
	}
}

// licenseFile matches the names of files with licenses and notices.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// readAll reads the files of a directory of the module, unless it did before.
func (l *licensed) readAll(module, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	prefix, err := filepath.Rel(module, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if licenseFile.MatchString(e.Name()) && e.Type().IsRegular() && filepath.Ext(e.Name()) != ".go" {
			if err := l.read(module, filepath.Join(prefix, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *licensed) read(dir string, names ...string) error {
	if l.files == nil {
		l.files = map[string]string{}
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		l.files[name] = string(text)
	}
	return nil
}

// check finds the licenses. Files of notices and patents add to a license and are none.
func (l *licensed) check() error {
	for name, text := range l.files {
		base := strings.ToLower(filepath.Base(name))
		if strings.HasPrefix(base, "notice") || strings.HasPrefix(base, "patents") {
			continue
		}
		found := licensecheck.Scan([]byte(text))
		if found.Percent < covered {
			return fmt.Errorf("module %s %s: %.0f %% of %s are the text of a known license, less than %d: read it, and replace "+
				"the module unless it is permissive", l.path, l.version, found.Percent, name, covered)
		}
		for _, m := range found.Match {
			if m.IsURL { // a link to a license that is there too
				continue
			}
			if !slices.Contains(permissive, m.ID) {
				return fmt.Errorf("module %s %s: its %s has the license %s, which is none of %s: replace the module", l.path,
					l.version, name, m.ID, strings.Join(permissive, ", "))
			}
			if !slices.Contains(l.ids, m.ID) {
				l.ids = append(l.ids, m.ID)
			}
		}
	}
	slices.Sort(l.ids)
	if len(l.ids) == 0 {
		return fmt.Errorf("module %s %s has no license: replace it", l.path, l.version)
	}
	return nil
}

// writeLicenses writes LICENSES.txt of the image.
func (r *Release) writeLicenses(ctx context.Context, files string) error {
	r.step("collect the licenses")
	var on []platform
	for _, arch := range Architectures {
		on = append(on, platform{"linux", arch})
	}
	list, err := licenses(ctx, r.Root, on, names...)
	if err != nil {
		return err
	}
	text := licenseTexts("The programs in the image of hostpath-provisioner "+r.Version+" have", list)
	return os.WriteFile(filepath.Join(files, "LICENSES.txt"), text, 0o644)
}

// licenseTexts returns the modules with their licenses, then each text once. of begins the sentence
// that names the programs.
func licenseTexts(of string, list []*licensed) []byte {
	var table, texts strings.Builder
	fmt.Fprintf(&table, "%s the license Apache-2.0, and contain these modules:\n\n", of)
	owners, order := map[string][]string{}, []string{}
	for _, l := range list {
		fmt.Fprintf(&table, "%s %s: %s\n", l.path, l.version, strings.Join(l.ids, ", "))
		for _, name := range slices.Sorted(maps.Keys(l.files)) {
			text := strings.TrimSpace(l.files[name])
			if owners[text] == nil {
				order = append(order, text)
			}
			owners[text] = append(owners[text], l.path+" ("+filepath.ToSlash(name)+")")
		}
	}
	for _, text := range order {
		fmt.Fprintf(&texts, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(owners[text], "\n"), text)
	}
	return []byte(table.String() + texts.String())
}
