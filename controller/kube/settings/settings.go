// Package settings has the settings of agents: one table for each process, of which flags,
// environment variables, --help and docs/reference/flags.md come. The operator passes settings on
// to its agents and accepts the values that an agent accepts, because both use the same row.
//
//	agent.go  the table of the node agent
//	kinds.go  the kinds of values
//
// A row validates one value. Whether two settings fit together, and whether a path or an address is
// what it should be on this node, is the process's to check.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Section is a group of settings, as --help and docs/reference/flags.md show them.
type Section struct {
	Title    string
	Settings []Setting
}

// Setting is a row of a table: a flag, the environment variable that sets it too, and the values
// that both accept.
type Setting struct {
	Flag string
	// Env is the variable. If it is empty, the variable is HPP_ and the flag's name, so that it
	// meets no variable of another program in a shared manifest.
	Env     string
	Kind    Kind
	Default string
	Help    string
	// ConfigMap reports whether the operator passes the variable on from its ConfigMap.
	ConfigMap bool
	// Ignored reports whether the setting has no effect. --help does not show it.
	Ignored bool
}

// Variable returns the environment variable that sets the flag.
func (s *Setting) Variable() string { return cmp.Or(s.Env, variable("HPP_", s.Flag)) }

func variable(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// typed is a flag's text, for which --help shows another type than string.
type typed struct {
	pflag.Value
	name string
}

func (t typed) Type() string { return t.name }

// Flags returns the flags of the section, with the variable of each in its usage. Each accepts any
// text: Parse validates it.
func (s Section) Flags() *pflag.FlagSet {
	f := pflag.NewFlagSet(s.Title, pflag.ContinueOnError)
	f.SortFlags = false
	for _, row := range s.Settings {
		short := ""
		if len(row.Flag) == 1 {
			short = row.Flag
		}
		f.StringP(row.Flag, short, row.Default, row.Help+" ["+row.Variable()+"]")
		added := f.Lookup(row.Flag)
		if row.Kind.shown != "string" { // whose default "0" is shown, and that of other types is not
			added.Value = typed{added.Value, row.Kind.shown}
		}
		if added.Hidden = row.Ignored; row.Ignored || row.Kind.shown == "bool" {
			added.NoOptDefVal = "true"
		}
	}
	return f
}

// Parse reads the settings from the environment and the arguments, and stores each in the target of
// its flag, which its kind describes. An empty variable counts as not set, and an argument takes
// precedence. It returns the flags, nil if the arguments ask for help, which usage has then
// printed. commands describes what the process has in place of unknown arguments.
func Parse(table []Section, args []string, targets map[string]any, commands string, usage func()) (
	*pflag.FlagSet, error) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Usage = usage
	var all []Setting
	for _, section := range table {
		f.AddFlagSet(section.Flags())
		all = append(all, section.Settings...)
	}
	for _, s := range all {
		if value := os.Getenv(s.Variable()); value != "" {
			if err := f.Set(s.Flag, value); err != nil {
				return nil, err
			}
		}
	}
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w; --help lists the flags", err)
	case f.NArg() > 0:
		return nil, fmt.Errorf("unknown command %q; %s, and --help lists the flags", f.Arg(0), commands)
	}
	for _, s := range all {
		if value := f.Lookup(s.Flag).Value.String(); !s.Kind.store(value, targets[s.Flag]) {
			return nil, fmt.Errorf("--%s (%s) is %q; set it to %s", s.Flag, s.Variable(), value, s.Kind.Want)
		}
	}
	return f, nil
}

// MigrateMode is what an agent does about PVs without the annotation contract.AnnMigrate.
type MigrateMode string

// The modes. In each of them the agent finishes migrations that cannot be cancelled any more.
const (
	MigrateOff       MigrateMode = "off"       // nothing
	MigratePlan      MigrateMode = "plan"      // nothing; the plan shows what MigrateRun would do
	MigrateRun       MigrateMode = "run"       // hostPath PVs are replaced by CSI PVs
	MigrateBack      MigrateMode = "back"      // those CSI PVs are replaced by hostPath PVs
	MigrateAnnotated MigrateMode = "annotated" // nothing; PVs with the annotation are migrated
)

// DisksAddress is the default of --metrics-addr of the agent of raw disks.
const DisksAddress = ":8080"

// Disks returns the settings of the agent of raw disks. Names, variables and defaults are those of
// cybozu's local-pv-provisioner, so that its manifests carry over.
func Disks() []Section {
	all := []Setting{
		{Flag: "node-name", Kind: text, Help: "name of the Node that this process runs on; required"},
		{Flag: "namespace-name", Kind: text, Help: "namespace of the ConfigMaps; required"},
		{Flag: "default-pv-spec-configmap", Kind: text,
			Help: "ConfigMap of a Node without the annotation; without it such a Node offers nothing"},
		{Flag: "polling-interval", Kind: period, Default: "5m0s",
			Help: "longest time between two scans of the devices; new devices and changes of ConfigMaps are noticed at once"},
		{Flag: "metrics-addr", Kind: text, Default: DisksAddress,
			Help: "address of /healthz, /readyz, /status, /metrics and /devices"},
		{Flag: "kubeconfig", Kind: text, Help: "kubeconfig file; without it the service account of the pod is used"},
		{Flag: "kube-api-qps", Kind: rate, Default: "20",
			Help: "requests per second to the API server; five times as many at once"},
		{Flag: "v", Kind: level, Default: "0", Help: "number for the log level verbosity"},
	}
	// Flags of the older program that have no meaning here.
	for _, name := range []string{"development", "zap-devel", "zap-encoder", "zap-log-level", "zap-stacktrace-level",
		"zap-time-encoding"} {
		all = append(all, Setting{Flag: name, Kind: text, Help: "accepted and ignored", Ignored: true})
	}
	for i := range all {
		all[i].Env = variable("LP_", all[i].Flag)
	}
	return []Section{{Settings: all}}
}
