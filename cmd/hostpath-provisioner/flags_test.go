package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent"
	"kubevirt.io/hostpath-provisioner/controller/disks"
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
	for _, s := range agent.Sections("the agent's") {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | environment | default | |\n|---|---|---|---|\n", s.Title)
		s.Flags.VisitAll(func(f *pflag.Flag) { row(&b, f, agent.Variable(f.Name)) })
	}
	b.WriteString("\n## The command disks\n\n`hostpath-provisioner disks` has flags of its own; see [raw-disks.md](../raw-disks.md).\n\n" +
		"| flag | environment | default | |\n|---|---|---|---|\n")
	(&disks.Options{}).Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			row(&b, f, disks.Variable(f.Name))
		}
	})
	return b.String()
}

// row writes a flag's row of a table.
func row(b *strings.Builder, f *pflag.Flag, variable string) {
	name := "--" + f.Name
	if len(f.Name) == 1 {
		name = "-" + f.Name
	}
	usage := strings.TrimSuffix(f.Usage, " ["+variable+"]")
	usage = strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(usage)
	fmt.Fprintf(b, "| `%s` | `%s` | %s | %s |\n", name, variable, f.DefValue, usage)
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
