package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// session is one call of the plugin.
type session struct {
	genericiooptions.IOStreams
	version string

	config  *genericclioptions.ConfigFlags
	output  string
	timeout time.Duration
	noExec  bool
	style   view.Style

	// screen is the terminal of Out; nil if Out is none.
	screen *screen

	reader  cluster.Reader
	contact *cluster.Contact // nil if the command needs no API server
	rest    *rest.Config
	// interrupted says why what was read is not complete, nil if it is. It is nil for a display, which its
	// user ends so.
	interrupted func() error
	namespace   string // of the user's context, or --namespace
}

// connect reads the kubeconfig and checks the output. formats are those that the command has
// besides table, json and yaml.
func (s *session) connect(formats ...string) error {
	switch accepted := append([]string{"", "table", "json", "yaml"}, formats...); {
	case !slices.Contains(accepted, s.output):
		return fmt.Errorf("output %q is not supported here: -o takes %s", s.output, strings.Join(accepted[1:], ", "))
	case s.timeout <= 0:
		return fmt.Errorf("--timeout %s: it must be above zero, such as 10s", s.timeout)
	}
	loader := s.config.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	if err != nil {
		return err
	}
	if s.namespace, _, err = loader.Namespace(); err != nil {
		return err
	}
	config.UserAgent = "kubectl-hpp/" + s.version
	// The plugin asks many agents at once; the API server has its own bounds.
	config.QPS, config.Burst = -1, 0
	config.WarningHandler = rest.NoWarnings{}
	clock := &cluster.Clock{}
	config.Wrap(clock.Wrap)
	contact := &cluster.Contact{}
	config.Wrap(contact.Wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	s.rest, s.contact, s.reader = config, contact, cluster.Reader{Client: client, Clock: clock}
	s.style.Wide = s.output == "wide"
	s.screen = screenOf(s.Out)
	if f, ok := s.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.style.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.style.Width = width
		}
	}
	s.Out = gate{s.Out, contact, s.interrupted}
	return nil
}

// gate is an output that takes nothing while the API server has answered nothing, or once the user has
// interrupted the reading: a script must not take that for an empty cluster, or for all of it.
type gate struct {
	io.Writer
	contact     *cluster.Contact
	interrupted func() error // nil for a completion
}

func (g gate) Write(p []byte) (int, error) {
	err := g.contact.Problem()
	if err == nil && g.interrupted != nil {
		err = g.interrupted()
	}
	if err != nil {
		return 0, err
	}
	return g.Writer.Write(p)
}

// answered makes a command fail if the API server answered nothing, or if it was interrupted while it read,
// whatever the command made of that. Commands that write print how far they came.
func (s *session) answered(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	if run == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) error {
		s.interrupted = func() error {
			if err := c.Context().Err(); err != nil && !slices.Contains([]string{"recover", "undelete"}, c.Name()) {
				return fmt.Errorf("interrupted, and nothing is printed, for it would not be complete: %w", err)
			}
			return nil
		}
		err := run(c, args)
		if s.contact != nil {
			if problem := s.contact.Problem(); problem != nil {
				return problem
			}
		}
		if err == nil && s.interrupted != nil {
			err = s.interrupted()
		}
		return err
	}
}

// isData reports whether the output is for programs.
func (s *session) isData() bool { return s.output == "json" || s.output == "yaml" }

// asker returns what runs commands in the pods of agents, or why the user's rights or flags forbid it
// for all of them. Agents in a namespace that the user may not enter have that as the problem of their
// answers: the user may be the administrator of one of two installations.
func (s *session) asker(ctx context.Context, of []cluster.Agent) (asker agents.Asker, why string) {
	if s.noExec {
		return asker, "the agents were not asked, because of --no-exec"
	}
	of = slices.DeleteFunc(slices.Clone(of), func(a cluster.Agent) bool { return a.Container == "" })
	denied, namespaces := map[string]string{}, cluster.Namespaces(of)
	for _, n := range namespaces {
		if denial := s.reader.MayExec(ctx, n); denial != "" {
			denied[n], why = denial, cmp.Or(why, denial)
		}
	}
	if len(denied) > 0 && len(denied) == len(namespaces) {
		return asker, why
	}
	return agents.Asker{Exec: agents.NewExec(s.rest, s.reader.Client), Timeout: s.timeout, Progress: s.progress("agents"),
		Denied: denied}, ""
}

// pools asks agents for their pools.
func (s *session) pools(ctx context.Context, of []cluster.Agent) (pools []agents.Pools, why string) {
	asker, why := s.asker(ctx, of)
	if why != "" {
		return nil, why
	}
	return asker.Pools(ctx, of), ""
}

// progressAfter is how long something takes before progress is printed.
const progressAfter = 2 * time.Second

// progress returns a function that prints how much is done to stderr, if that is a terminal and the
// work takes long. It erases the line at the end.
func (s *session) progress(what string) func(done, all int) {
	f, ok := s.ErrOut.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	began := time.Now()
	var mu sync.Mutex
	return func(done, all int) {
		if time.Since(began) < progressAfter {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprintf("\r%d of %d %s", done, all, what)
		if done == all {
			text = "\r" + strings.Repeat(" ", len(text)) + "\r"
		}
		_, _ = io.WriteString(f, text) // it is only decoration
	}
}

// ago returns how long ago it was by the API server's clock: 0s for what a clock that is ahead recorded, and
// "" for the zero time.
func (s *session) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	now, _ := s.reader.Now()
	return duration.HumanDuration(max(0, now.Sub(t)))
}

// left returns how long it is until then by the API server's clock: 0s for a time that is over, and "" for
// the zero time.
func (s *session) left(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	now, _ := s.reader.Now()
	return duration.HumanDuration(max(0, t.Sub(now)))
}
