package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completerPrefix begins the name of the program that kubectl runs to complete the arguments of a
// plugin; the rest is the name of the plugin (`kubectl plugin --help`).
const completerPrefix = "kubectl_complete-"

// shells are those that cobra writes scripts for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func (s *session) completionCommand() *cobra.Command {
	install := false
	c := &cobra.Command{
		Use:   "completion [bash|zsh|fish|powershell]",
		Short: "Complete the names of claims, nodes and pools in a shell",
		Long: "completion --install writes the program kubectl_complete-hpp beside the plugin. Shells that complete\n" +
			"kubectl then complete kubectl hpp, too: kubectl completion --help says how they do.\n\n" +
			"With a shell's name it prints a script for those who run the plugin as kubectl-hpp.\n\n" +
			"Permissions: none. To complete names: list persistentvolumeclaims in the namespace, nodes, storageclasses\n" +
			"and namespaces, as far as they are completed.",
		Example:   "  kubectl hpp completion --install\n  source <(kubectl-hpp completion bash)",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case install && len(args) > 0:
				return errors.New("--install is for all shells: leave " + args[0] + " out")
			case install:
				return s.installCompletion(c.Root())
			case len(args) == 0:
				return c.Help()
			}
			return s.printCompletion(c.Root(), args[0])
		},
	}
	c.Flags().BoolVar(&install, "install", false, "write kubectl_complete-hpp beside the plugin")
	return c
}

func (s *session) printCompletion(root *cobra.Command, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(s.Out, true)
	case "zsh":
		return root.GenZshCompletion(s.Out)
	case "fish":
		return root.GenFishCompletion(s.Out, true)
	}
	return root.GenPowerShellCompletionWithDesc(s.Out)
}

// script returns the name and the text of the completer on a system, of a plugin that is called as
// a command of kubectl.
func script(system, program, called string) (name, text string) {
	name = completerPrefix + strings.TrimPrefix(program, pluginPrefix)
	if system == "windows" {
		return name + ".cmd", "@rem " + mark + "\r\n@" + called + " __complete %*\r\n"
	}
	return name, "#!/bin/sh\n# " + mark + "\nexec " + called + " __complete \"$@\"\n"
}

// mark is how a completer of this plugin is known.
const mark = "written by kubectl hpp completion --install"

// installCompletion writes the completer into the first directory that can be written, of those of
// PATH that have the plugin, or else beside this program.
func (s *session) installCompletion(root *cobra.Command) error {
	program := root.Name()
	if !strings.HasPrefix(program, pluginPrefix) {
		return fmt.Errorf(
			"--install: kubectl runs plugins whose name begins with %s, and this program is %s: rename it",
			pluginPrefix,
			program,
		)
	}
	name, text := script(runtime.GOOS, program, root.DisplayName())
	dirs := pluginDirs(runtime.GOOS, program, filepath.SplitList(os.Getenv("PATH")))
	note := ""
	if len(dirs) == 0 {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		dirs, note = []string{filepath.Dir(self)}, "; kubectl finds it once that directory is in PATH"
	}
	var errs []error
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		done, err := writeCompleter(file, text)
		if err == nil {
			_, err = fmt.Fprintf(s.Out, "%s %s%s\n", done, file, note)
			return err
		}
		errs = append(errs, err)
		if !errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return fmt.Errorf("--install: %w", errors.Join(errs...))
}

// pluginDirs returns those of the directories of PATH that have the program.
func pluginDirs(system, program string, path []string) (dirs []string) {
	if system == "windows" {
		program += ".exe"
	}
	for _, dir := range path {
		// In a relative directory kubectl refuses to run plugins.
		if st, err := os.Stat(filepath.Join(dir, program)); err == nil && st.Mode().IsRegular() && filepath.IsAbs(dir) &&
			!slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// writeCompleter writes the file, and returns in words what it did. It returns an error if the file
// is there and another program's.
func writeCompleter(file, text string) (done string, err error) {
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "wrote", create(file, text)
	} else if err != nil {
		return "", err
	}
	var was []byte
	if st.Mode().IsRegular() {
		if was, err = os.ReadFile(file); err != nil {
			return "", err
		}
	}
	switch {
	case !bytes.Contains(was, []byte(mark)):
		return "", fmt.Errorf("%s is there, and is not of this plugin: remove it, and try again", file)
	case string(was) == text:
		return "it was there already:", nil
	}
	if err := os.Remove(file); err != nil {
		return "", err
	}
	return "replaced", create(file, text)
}

// create writes a program that does not exist. A file that cannot be written whole does not stay.
func create(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
