package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/controller/agent"
)

// parse parses the flags of a command that prints, and --output among them, whose first format is
// the default. help has a place for the flags. The format is "" after --help.
func parse(flags *pflag.FlagSet, help string, args []string, out io.Writer, formats ...string) (format string,
	err error) {
	last := len(formats) - 1
	list := strings.Join(formats[:last], ", ") + " or " + formats[last]
	flags.StringVarP(&format, "output", "o", formats[0], list)
	flags.Usage = func() { fmt.Fprintf(out, help, flags.FlagUsages()) }
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return "", nil
	case err != nil:
		return "", agent.Usagef("%s: %w; --help lists the flags", flags.Name(), err)
	case !slices.Contains(formats, format):
		return "", agent.Usagef("%s: output %q is not %s", flags.Name(), format, list)
	}
	return format, nil
}

// printJSON prints JSON that no terminal interprets.
func printJSON(out io.Writer, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(out, escaped(data))
	}
	return err
}

// process is the one of this container that a command asks, and within is for how long.
type process struct {
	name, flag, address string
	within              time.Duration
}

// answerError is an answer of the process with another code than 200.
type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return e.text }

// ask sends a request to the process, and decodes its answer, whose header it returns. The error is
// an *answerError if the process refuses the request.
func (p process) ask(ctx context.Context, method, path string, body, answer any) (http.Header, error) {
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.flag, err)
	}
	if host == "" {
		host = "localhost"
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(host, port)+path,
		bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the %s of this container, which must serve its %s: %w", p.name, p.flag, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return response.Header, json.NewDecoder(response.Body).Decode(answer)
	}
	const longest = 64 << 10
	text, _ := io.ReadAll(io.LimitReader(response.Body, longest)) // the code is an error already
	return nil, &answerError{response.StatusCode, strings.TrimSpace(string(text))}
}
