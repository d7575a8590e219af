// Command machine boots a distribution in a virtual machine, with a kubelet and a control plane,
// and works with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"kubevirt.io/hostpath-provisioner/e2e/machine"
)

const usage = `usage: machine COMMAND

  up             boot a machine with its control plane
  exec SCRIPT    run a shell script in it, as root
  reboot         reboot it by systemctl, and wait until it has booted
  power-cut      end it as a power cut does, start it again, and wait until it has booted
  kubeconfig     print the path of the administrator's kubeconfig
  down           end both and remove everything that was created

Variables: HPP_E2E_MACHINE (directory), HPP_E2E_CACHE.
`

// commands work with the machine that is up.
var commands = map[string]func(context.Context, *machine.Machine) error{
	"reboot":    func(ctx context.Context, m *machine.Machine) error { return m.Reboot(ctx) },
	"power-cut": func(ctx context.Context, m *machine.Machine) error { return m.PowerCut(ctx) },
	"down":      func(_ context.Context, m *machine.Machine) error { return m.Down() },
	"kubeconfig": func(_ context.Context, m *machine.Machine) error {
		fmt.Println(m.Plane().Kubeconfig())
		return nil
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		os.Exit(max(exit.ExitCode(), 1)) // the script has printed the reason
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	dir := os.Getenv("HPP_E2E_MACHINE")
	if dir == "" {
		dir = filepath.Join("/var/lib", "hostpath-provisioner-machine")
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	command, known := commands[name]
	switch {
	case name == "up" && len(args) == 1:
		_, err := machine.Up(ctx, machine.Options{Dir: dir, Detach: true, Log: os.Stderr})
		return err
	case name == "exec" && len(args) == 2, known && len(args) == 1:
	default:
		return errors.New(strings.TrimSpace(usage))
	}
	m, err := machine.Open(dir)
	if err != nil {
		return err
	}
	if !known {
		cmd := m.Command(ctx, args[1])
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return cmd.Run()
	}
	return command(ctx, m)
}
