// Command record writes a screen as an SVG picture that is legible on light and dark pages. The plugin's pictures are drawn
// from the screens that TestScreens of controller/plugin compares with the commands:
//
//	go test ./controller/plugin -run TestScreens -update
//	go -C e2e run ./cmd/record -screen ../controller/plugin/testdata/explain.screen -o ../docs/plugin.svg
//	go -C e2e run ./cmd/record -screen ../controller/plugin/testdata/status.screen -o ../docs/status.svg
//
// Without -screen it runs command lines on a terminal of 100 columns. kubectl is that of the local cluster, with the plugin
// that `make build` made:
//
//	make cluster-up && e2e/broken-claims.sh
//	go -C e2e run ./cmd/record -o ../explain.svg 'kubectl hpp explain two -n broken'
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
	from := flag.String("screen", "", "a file with the screen, in place of command lines")
	flag.Parse()
	if err := write(context.Background(), *out, *from, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, out, from string, lines []string) error {
	var screen []byte
	var err error
	switch {
	case (from == "") == (len(lines) == 0):
		return fmt.Errorf("give -screen, or the command lines to run, each as one argument")
	case from != "":
		screen, err = os.ReadFile(from)
	default:
		screen, err = run(ctx, lines)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(picture(string(screen))), 0o644)
}

// run returns what the command lines show.
func run(ctx context.Context, lines []string) (screen []byte, err error) {
	dir, err := os.MkdirTemp("", "record-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	kubectl, err := filepath.Abs("kubectl.sh")
	if err != nil {
		return nil, err
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", kubectl)
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(wrapper), 0o755); err != nil {
		return nil, err
	}
	for _, line := range lines {
		screen = append(screen, "\x1b[1m$ "+line+"\x1b[0m\n"...)
		// script(1) gives the command a terminal, without which it prints no colors.
		cmd := exec.CommandContext(ctx, "script", "-qec", "stty cols 100 rows 50; "+line, "/dev/null")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TERM=xterm-256color")
		printed, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", line, err, printed)
		}
		screen = append(append(screen, printed...), '\n')
	}
	return screen, nil
}
