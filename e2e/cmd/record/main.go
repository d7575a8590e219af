// Command record runs command lines on a terminal of 100 columns and writes what they print as an
// SVG picture. The README's picture of the plugin is made so:
//
//	make cluster-up && e2e/broken-claims.sh
//	go -C e2e run ./cmd/record -o ../docs/plugin.svg 'kubectl hpp explain two -n broken' 'kubectl hpp explain six -n broken'
//
// kubectl is that of the local cluster, with the plugin that `make build` made.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	out := flag.String("o", "plugin.svg", "the file to write")
	flag.Parse()
	if err := run(context.Background(), *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, lines []string) error {
	if len(lines) == 0 {
		return fmt.Errorf("give the command lines to run, each as one argument")
	}
	dir, err := os.MkdirTemp("", "record-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	kubectl, err := filepath.Abs("kubectl.sh")
	if err != nil {
		return err
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", kubectl)
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(wrapper), 0o755); err != nil {
		return err
	}
	var screen []byte
	for _, line := range lines {
		screen = append(screen, "\x1b[1m$ "+line+"\x1b[0m\n"...)
		// script(1) gives the command a terminal, without which it prints no colors.
		cmd := exec.CommandContext(ctx, "script", "-qec", "stty cols 100 rows 50; "+line, "/dev/null")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TERM=xterm-256color")
		printed, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, printed)
		}
		screen = append(append(screen, printed...), '\n')
	}
	return os.WriteFile(out, []byte(picture(string(screen))), 0o644)
}
