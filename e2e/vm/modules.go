package vm

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// moduleFiles returns the files of the named modules and of those they need, in the order in which
// they can be loaded. A module that is built into the kernel has no file and is left out.
func (k kernel) moduleFiles(names []string) ([]string, error) {
	all := map[string]string{} // by name
	err := filepath.WalkDir(k.modules, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			all[plain(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(filepath.Dir(k.modules), "modules.builtin"))
	if err != nil {
		return nil, err
	}
	var files []string
	var add func(name string) error
	add = func(name string) error {
		path, ok := all[plain(name)]
		if slices.Contains(files, path) || strings.Contains(plain(string(builtin)), "/"+plain(name)+".ko\n") {
			return nil
		}
		if !ok {
			return fmt.Errorf("the kernel in %s has no module %s", k.modules, name)
		}
		needed, err := needs(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, name := range needed {
			if err := add(name); err != nil {
				return err
			}
		}
		files = append(files, path)
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// plain spells a module's name as the kernel does; its file may have hyphens.
func plain(name string) string { return strings.ReplaceAll(name, "-", "_") }

// needs reads from a module's file which others it needs.
func needs(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo")
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(data, []byte{0}) {
		if list, ok := bytes.CutPrefix(field, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ","), nil
		}
	}
	return nil, nil
}
