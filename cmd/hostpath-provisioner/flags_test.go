package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

var update = flag.Bool("update", false, "write docs/reference/flags.md")

// reference returns docs/reference/flags.md as the flags are.
func reference() string {
	var b strings.Builder
	b.WriteString(`# Flags

<!-- Generated: go test ./cmd/hostpath-provisioner -run TestFlagReference -update -->

Each flag has an environment variable. The flag takes precedence; an empty variable counts as not
set. A wrong setting, or all missing ones together, is one line on stderr and exit code 2; any other
error has exit code 1.

` + "`hostpath-provisioner version`, or `--version` alone, prints the version. `inspect` is described in\n" +
		"[operations.md](../operations.md), `migrate` in [migration.md](../migration.md).\n")
	for _, s := range settings.Agent("the agent's") {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		rows(&b, s)
	}
	b.WriteString("\n## The command disks\n\n`hostpath-provisioner disks` has flags of its own; see [raw-disks.md](../raw-disks.md).\n")
	for _, s := range settings.Disks() {
		rows(&b, s)
	}
	return b.String()
}

// rows writes the table of a section.
func rows(b *strings.Builder, section settings.Section) {
	b.WriteString("\n| flag | environment | default | |\n|---|---|---|---|\n")
	for _, s := range section.Settings {
		if s.Ignored {
			continue
		}
		name := "--" + s.Flag
		if len(s.Flag) == 1 {
			name = "-" + s.Flag
		}
		help := strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(s.Help)
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", name, s.Variable(), s.Default, help)
	}
}

func TestFlagReference(t *testing.T) {
	const page = "../../docs/reference/flags.md"
	want := reference()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not what the flags are (%v): go test ./cmd/hostpath-provisioner -run TestFlagReference -update", page, err)
	}
}
