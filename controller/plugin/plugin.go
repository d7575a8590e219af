package plugin

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// ExitError ends the program with a code other than 1.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the code with which the program ends after an error.
func ExitCode(err error) int {
	var e *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	return 1
}

// errQuiet is the error of a command that has printed why it fails.
var errQuiet = errors.New("")

// Quiet reports whether the command has printed why it fails.
func Quiet(err error) bool { return errors.Is(err, errQuiet) }

// Command returns the command kubectl-hpp of a version.
func Command(version string, streams genericiooptions.IOStreams) *cobra.Command {
	s := &session{IOStreams: streams, version: version, config: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Short: "Local storage of the cluster at a glance, and why a claim waits",
		Long: "kubectl hpp shows an installation of hostpath-provisioner: nodes, pools, volumes, and why a claim waits.\n\n" +
			"It has your rights and changes nothing, except for recover and undelete, which ask. It runs the agents' own commands in " +
			"their pods if you may (create pods/exec);\nwhat you may not read is shown as unknown.",
		SilenceErrors: true, SilenceUsage: true,
	}
	Named(root, "kubectl-hpp")
	flags := root.PersistentFlags()
	s.config.AddFlags(flags)
	flags.StringVarP(&s.output, "output", "o", "",
		"table (the default), wide, json or yaml; name where objects are listed")
	flags.BoolVar(&s.style.NoHeaders, "no-headers", false, "print tables without titles")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Second, "wait for each agent")
	flags.BoolVar(&s.noExec, "no-exec", false, "read the API server only: run no command in the agents' pods")
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.AddCommand(s.explainCommand(), s.statusCommand(), s.dfCommand(), s.versionCommand(), s.doctorCommand(),
		s.reportCommand())
	root.AddCommand(s.poolsCommand(), s.volumesCommand(), s.topCommand(), s.orphansCommand(), s.trashCommand(),
		s.migrateCommand(), s.recoverCommand(), s.undeleteCommand(), s.disksCommand(), s.nodeCommand(), s.completionCommand())
	s.complete(root)
	for _, c := range root.Commands() {
		c.Args = described(c.Args)
		for _, each := range append(c.Commands(), c) {
			each.RunE = s.answered(each.RunE)
		}
	}
	return root
}

// pluginPrefix begins the names of programs that kubectl runs as plugins.
const pluginPrefix = "kubectl-"

// Named makes the command show the name by which it was called: that of the program, or, if it is a
// plugin, that of the command of kubectl. kubectl finds a-b_c as `kubectl a b-c`.
func Named(root *cobra.Command, program string) {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	root.Use, root.Annotations = name, nil
	if rest, is := strings.CutPrefix(name, pluginPrefix); is {
		called := "kubectl " + strings.ReplaceAll(strings.ReplaceAll(rest, "-", " "), "_", "-")
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: called}
	}
}

// described makes an error about arguments name the help.
func described(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(c, args); err != nil {
			return fmt.Errorf("%w: %s --help", err, c.CommandPath())
		}
		return nil
	}
}
