package conformance

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

var (
	//go:embed excluded.txt
	excludedText string
	//go:embed ran.txt
	ranText string
)

// Lists are what people have written down of the suite.
type Lists struct {
	// Ran has the names of the specs that pass.
	Ran []string
	// Excluded has the specs that are not run.
	Excluded []Exclusion
}

// Exclusion is a line of excluded.txt: an expression of Go, as Ginkgo's -skip takes it, and why no
// spec is run whose name fits it.
type Exclusion struct {
	Fits   *regexp.Regexp
	Reason string
	// Long is true of specs that only a full run has.
	Long bool
	// Form is the form of the driver that does without these specs; "" is every form.
	Form string
}

// Committed returns the lists of the tree.
func Committed() (Lists, error) { return parse(ranText, excludedText) }

// parse reads the texts of ran.txt and excluded.txt. Empty lines and those that begin with # are
// ignored.
func parse(ran, excluded string) (l Lists, err error) {
	for _, line := range lines(ran) {
		l.Ran = append(l.Ran, line)
	}
	for _, line := range lines(excluded) {
		expression, reason, ok := strings.Cut(line, " | ")
		if !ok || strings.TrimSpace(reason) == "" {
			return l, fmt.Errorf("excluded.txt: %q: want an expression, a bar and a reason", line)
		}
		fits, err := regexp.Compile(strings.TrimSpace(expression))
		if err != nil {
			return l, fmt.Errorf("excluded.txt: %w", err)
		}
		e := Exclusion{Fits: fits, Reason: strings.TrimSpace(reason)}
		e.Reason, e.Long = strings.CutPrefix(e.Reason, "long: ")
		if form, why, of := strings.Cut(e.Reason, ": "); of && strings.HasPrefix(form, "form ") {
			e.Form, e.Reason = strings.TrimPrefix(form, "form "), why
		}
		l.Excluded = append(l.Excluded, e)
	}
	return l, nil
}

func lines(text string) (all []string) {
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// For returns the lists for a run of one form of the driver, as the directory of its manifests is
// named. A full run has the long specs, too.
func (l Lists) For(form string, full bool) Lists {
	l.Excluded = slices.DeleteFunc(slices.Clone(l.Excluded), func(e Exclusion) bool {
		return full && e.Long || e.Form != "" && e.Form != form
	})
	return l
}

// Skip returns the expression for Ginkgo's -skip that leaves out what is excluded.
func (l Lists) Skip() string {
	var all []string
	for _, e := range l.Excluded {
		all = append(all, e.Fits.String())
	}
	return strings.Join(all, "|")
}

func (l Lists) excludes(name string) bool {
	return slices.ContainsFunc(l.Excluded, func(e Exclusion) bool { return e.Fits.MatchString(name) })
}

// Faults returns what is wrong with a run, a line each, and nothing for a good one.
func (l Lists) Faults(specs []Spec) (all []string) {
	passed := map[string]bool{}
	for _, s := range specs {
		switch s.Outcome {
		case Failed:
			all = append(all, "failed: "+s.Name+": "+s.Why)
		case Skipped:
			if !byCapability(s.Why) {
				all = append(all, "skipped for a reason that is no capability of the driver: "+s.Name+": "+s.Why)
			}
		case Left:
			if !l.excludes(s.Name) {
				all = append(all, "neither run nor excluded: "+s.Name)
			}
		case Passed:
			passed[s.Name] = true
			if !slices.Contains(l.Ran, s.Name) {
				all = append(all, "passed, and is missing from ran.txt: "+s.Name)
			}
		}
	}
	for _, name := range l.Ran {
		if !passed[name] && !l.excludes(name) {
			all = append(all, "in ran.txt, and did not pass: "+name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// aboutCapability are the suite's own words where a driver or its class does without something, or
// where a test is not made for what the pattern asks for.
var aboutCapability = regexp.MustCompile(`(?i)\b(does(n't| not) (support|specify|define|implement|publish|provide)|` +
	`has no configured|only supports|supports dynamic provisioning, skipping|requires to deploy|not supported for this test|` +
	`not supported for performance tests|returned nil|does not work with|doesn't work with|is not valid for|` +
	`is not implemented|skipping .* test for|is (not )?ephemeral|should be covered by block|not enough topologies|` +
	`number of available nodes is less|no topology with at least|not compatible with|immediate binding may cause pod startup failures)`)

func byCapability(why string) bool { return aboutCapability.MatchString(why) }

// Table writes the specs that ran, how many the suite skipped for each reason, and what is excluded.
func (l Lists) Table(w io.Writer, specs []Spec) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	var ran []Spec
	skipped := map[string]int{}
	left := 0
	for _, s := range specs {
		switch s.Outcome {
		case Skipped:
			skipped[s.Why]++
		case Left:
			left++
		default:
			ran = append(ran, s)
		}
	}
	slices.SortFunc(ran, func(a, b Spec) int { return cmp.Compare(a.Name, b.Name) })
	_, _ = fmt.Fprintln(out, "SECONDS\tRESULT\tSPEC")
	passed := 0
	for _, s := range ran {
		result := "FAILED"
		if s.Outcome == Passed {
			result = "passed"
			passed++
		}
		_, _ = fmt.Fprintf(out, "%.0f\t%s\t%s\n", s.Took.Seconds(), result, s.Name)
	}
	_, _ = fmt.Fprintln(out, "\nSPECS\tSKIPPED BY THE SUITE BECAUSE")
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		_, _ = fmt.Fprintf(out, "%d\t%s\n", skipped[reason], reason)
	}
	_, _ = fmt.Fprintln(out, "\nNOT RUN\tREASON")
	for _, e := range l.Excluded {
		_, _ = fmt.Fprintf(out, "%s\t%s\n", e.Fits, e.Reason)
	}
	_, _ = fmt.Fprintf(out, "\n%d of %d specs passed that ran; %d skipped by capability, %d not run\n", passed, len(ran),
		len(specs)-len(ran)-left, left)
	return out.Flush()
}
