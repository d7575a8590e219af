package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each module in the programs has a license that is known and permissive, and the release has its
// text.
func TestLicenses(t *testing.T) {
	r := &Release{Options: Options{Root: "../..", Version: "v1.2.3", Progress: t.Output()}}
	dir := t.TempDir()
	if err := r.writeLicenses(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "LICENSES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	again := t.TempDir()
	if err := r.writeLicenses(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(filepath.Join(again, "LICENSES.txt")); err != nil || string(second) != text {
		t.Errorf("a second list has %d bytes, which differ from %d; %v", len(second), len(data), err)
	}
	if root, err := filepath.Abs(r.Root); err != nil || strings.Contains(text, root) {
		t.Errorf("LICENSES.txt names %s, %v: another clone would make other bytes", root, err)
	}
	for _, want := range []string{
		"\nstd the Go standard library: BSD-3-Clause\n", "\nk8s.io/client-go v", "\ngoogle.golang.org/grpc v", "google.golang.org/grpc (NOTICE.txt)\n",
		"\ngithub.com/prometheus/client_golang v", "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION",
		"sigs.k8s.io/controller-runtime v", // of the operator alone
	} {
		if !strings.Contains(text, want) {
			t.Errorf("LICENSES.txt lacks %q", want)
		}
	}
	for line := range strings.Lines(text[:strings.Index(text, "=====")]) {
		if strings.Contains(line, "pgregory.net/rapid") { // of tests alone, with a license that is not permissive
			t.Errorf("no program has %s", line)
		}
	}
}

// So does each module in the plugin of kubectl, on any platform.
func TestLicensesOfThePlugin(t *testing.T) {
	list, err := licenses(t.Context(), "../..", pluginPlatforms, plugin)
	if err != nil {
		t.Fatal(err)
	}
	text := string(licenseTexts("The programs have", list))
	for _, want := range []string{"The programs have the license Apache-2.0, and contain these modules:\n", "\ngithub.com/spf13/cobra v",
		"\ngithub.com/inconshreveable/mousetrap v"} { // for Windows alone
		if !strings.Contains(text, want) {
			t.Errorf("the licenses lack %q", want)
		}
	}
}

func TestLicensesAreChecked(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	const mpl = "This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was not distributed with " +
		"this file, You can obtain one at https://mozilla.org/MPL/2.0/."
	for name, c := range map[string]struct {
		files map[string]string
		words string
	}{
		"permissive":    {map[string]string{"LICENSE": string(apache), "NOTICE": "made by us"}, ""},
		"copyleft":      {map[string]string{"LICENSE": mpl}, "has the license MPL-2.0, which is none of"},
		"also copyleft": {map[string]string{"LICENSE": string(apache), "internal/COPYING": mpl}, "its internal/COPYING has the license MPL-2.0"},
		"unknown":       {map[string]string{"LICENSE": "All rights reserved. Ask us first."}, "are the text of a known license"},
		"with a rider":  {map[string]string{"LICENSE": string(apache) + strings.Repeat("You may not sell it. ", 400)}, "of LICENSE are the text of a known license"},
		"none":          {nil, "has no license"},
		"only a notice": {map[string]string{"NOTICE": "made by us"}, "has no license"},
	} {
		l := &licensed{path: "example.com/m", version: "v1", files: c.files}
		err := l.check()
		if c.words == "" && err == nil {
			continue
		}
		wants(t, err, c.words)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
