package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Source is the commit of a release.
type Source struct {
	// Commit is its full name.
	Commit string
	// Time is when it was made.
	Time time.Time
}

// version has the part before a hyphen, and what follows it in a version before a release.
var version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// readSource returns the commit of a checkout without changes. It returns an error if a tag of the
// version names another.
func readSource(ctx context.Context, root, v string) (Source, error) {
	if !version.MatchString(v) {
		return Source{}, fmt.Errorf("%q is not a version: make release VERSION=v1.2.3 or v1.2.3-rc.1", v)
	}
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return Source{}, err
	}
	if changes != "" {
		return Source{}, fmt.Errorf("a release is made of a commit, and this checkout has changes; commit them or use "+
			"another clone:\n%s", changes)
	}
	source, err := lastCommit(ctx, root)
	if err != nil {
		return Source{}, err
	}
	tagged, err := git(ctx, root, "tag", "--list", v,
		"--format=%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)")
	if err == nil && tagged != "" && tagged != source.Commit {
		err = fmt.Errorf("tag %s is on commit %s, and this checkout is at %s; check the tag out, or choose another version",
			v, tagged, source.Commit)
	}
	return source, err
}

// lastCommit returns the commit that is checked out.
func lastCommit(ctx context.Context, root string) (Source, error) {
	commit, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return Source{}, err
	}
	id, seconds, _ := strings.Cut(commit, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Source{}, fmt.Errorf("the time of commit %s: %w", id, err)
	}
	return Source{Commit: id, Time: time.Unix(unix, 0).UTC()}, nil
}

// git returns what git prints, without spaces around it.
func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := run(ctx, nil, "git", append([]string{"-C", root}, args...)...)
	return strings.TrimSpace(string(out)), err
}

// run runs a program with more variables, and returns what it printed. Its error has what the
// program wrote to stderr.
func run(ctx context.Context, env []string, program string, args ...string) ([]byte, error) {
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), &out, &log
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(log.String())
		return nil, errors.Join(fmt.Errorf("%s: %w", strings.Join(append([]string{program}, args...), " "), err),
			errors.New(text))
	}
	return out.Bytes(), nil
}
