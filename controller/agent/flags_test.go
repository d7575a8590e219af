package agent

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/disks"
)

var update = flag.Bool("update", false, "write docs/reference/flags.md")

// reference returns docs/reference/flags.md as the flags are.
func reference() string {
	var b strings.Builder
	b.WriteString(`# Flags

<!-- Generated: go test ./controller/agent -run TestFlagReference -update -->

Each flag has an environment variable. The flag takes precedence; an empty variable counts as not
set. A wrong setting, or all missing ones together, is one line on stderr and exit code 2; any other
error has exit code 1.

` + "`hostpath-provisioner version`, or `--version` alone, prints the version. `inspect` is described in\n" +
		"[operations.md](../operations.md), `migrate` in [migration.md](../migration.md).\n")
	for _, s := range (&options{version: "the agent's"}).sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | environment | default | |\n|---|---|---|---|\n", s.title)
		s.flags.VisitAll(func(f *pflag.Flag) { row(&b, f, variable(f.Name)) })
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
		t.Errorf("%s is not what the flags are (%v): go test ./controller/agent -run TestFlagReference -update", page, err)
	}
}

func TestSettingsFromTheEnvironment(t *testing.T) {
	t.Setenv("NODE_NAME", "node-01")
	t.Setenv("PV_DIR", t.TempDir())
	t.Setenv("USE_NAMING_PREFIX", "tRUE")
	t.Setenv("HPP_PURGE_RATE", "7")
	t.Setenv("HPP_KUBE_API_QPS", "3")
	t.Setenv("HPP_RESERVE", "")
	o, err := parseOptions("test", []string{"--kube-api-qps=4"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if !o.prefix || o.purgeRate != 7 || o.qps != 4 || o.reserve != "0" {
		t.Errorf("prefix %v, purge rate %d, requests per second %v, reserve %q", o.prefix, o.purgeRate, o.qps, o.reserve)
	}
	t.Setenv("HPP_PURGE_RATE", "fast")
	if _, err := parseOptions("test", nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "HPP_PURGE_RATE") {
		t.Errorf("error %v, want one that names the variable", err)
	}
}

// Two flags never share a variable, whatever their names.
func TestVariablesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, s := range (&options{}).sections() {
		s.flags.VisitAll(func(f *pflag.Flag) {
			if other, twice := seen[variable(f.Name)]; twice {
				t.Errorf("%s is the variable of --%s and --%s", variable(f.Name), other, f.Name)
			}
			seen[variable(f.Name)] = f.Name
		})
	}
	t.Logf("%d flags", len(seen))
}
