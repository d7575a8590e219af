package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/agents"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
	"kubevirt.io/hostpath-provisioner/controller/plugin/doctor"
	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

// Sources are what a report is made from.
type Sources struct {
	Reader cluster.Reader
	// Facts and Rows are what doctor read and found.
	Facts *doctor.Facts
	Rows  []doctor.Row
	// Asker runs commands in the agents' pods; NoAsker says why it may not.
	Asker   agents.Asker
	NoAsker string
	// Version is that of the plugin.
	Version string
	// Timeout bounds the wait for each log.
	Timeout time.Duration
	// Progress is called when a part begins; nil if it is not needed.
	Progress func(part string)
}

// Write writes the report, and returns the files that it has and lacks. What cannot be read is
// missing in it, and no error; an error is one of writing, or the end of ctx.
func Write(ctx context.Context, to io.Writer, s Sources) ([]Entry, error) {
	at := s.Facts.Now.UTC()
	b := newBundle(to, at)
	progress := func(part string) {
		if s.Progress != nil {
			s.Progress(part)
		}
	}
	b.diagnosis(s.Rows)
	progress("objects")
	b.objects(ctx, s.Reader, s.Facts)
	b.metrics(s.Facts)
	progress("inspect")
	b.inspect(ctx, s)
	progress("logs")
	pods := s.Reader.AgentPods(ctx)
	if !pods.Known() {
		b.missing("logs", pods.Unknown)
	}
	b.logs(ctx, s.Reader.Client, append(pods.Items[:len(pods.Items):len(pods.Items)], s.Facts.Operators.Items...),
		s.Timeout)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the report was interrupted: %w", err)
	}
	head := fmt.Sprintf("Report of kubectl hpp %s, %s", s.Version, at.Format(time.RFC3339))
	if v := s.Facts.Version.It; v != nil {
		head += ", Kubernetes " + v.GitVersion
	}
	return b.entries, b.close(head)
}

// diagnosis adds what doctor found.
func (b *bundle) diagnosis(rows []doctor.Row) {
	var plain any
	data, err := json.Marshal(rows)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	if err == nil {
		data, err = view.JSON(scrubbedValue(plain, &b.dropped))
	}
	if err != nil {
		b.missing("doctor.json", err.Error())
		return
	}
	b.add("doctor.json", "what doctor found", data)
}

// metrics adds the metrics of each pod.
func (b *bundle) metrics(f *doctor.Facts) {
	for _, m := range f.Metrics {
		name := "metrics/" + m.Agent.Namespace + "/" + m.Agent.Pod + ".txt"
		if m.Unknown != "" {
			b.missing(name, m.Unknown)
		}
		if len(m.Text) > 0 {
			b.add(name, "the metrics of node "+m.Agent.Node, []byte(scrubbed(string(m.Text))))
		}
	}
}

// inspect adds what each agent reports of its pools or disks.
func (b *bundle) inspect(ctx context.Context, s Sources) {
	var nodes, disks []cluster.Agent
	for _, a := range s.Facts.Agents.Items {
		if a.Process == cluster.DiskAgent {
			disks = append(disks, a)
		} else {
			nodes = append(nodes, a)
		}
	}
	if s.NoAsker != "" || !s.Facts.Agents.Known() {
		for _, why := range []string{s.NoAsker, s.Facts.Agents.Unknown} {
			if why != "" {
				b.missing("inspect", why)
			}
		}
		return
	}
	b.answers("pools", s.Asker.Ask(ctx, nodes, "inspect", "-o", "json"))
	b.answers("disks", s.Asker.Ask(ctx, disks, "disks", "inspect", "-o", "json"))
}

func (b *bundle) answers(what string, answers []agents.Answer) {
	for _, a := range answers {
		name := "inspect/" + a.Agent.Namespace + "/" + a.Agent.Pod + ".json"
		if a.Problem != "" {
			b.missing(name, "node "+a.Agent.Node+": "+a.Problem)
		}
		data, why := b.inspected(a.Out)
		if why != "" {
			b.missing(name, why)
		}
		if len(data) > 0 {
			b.add(name, "the "+what+" of node "+a.Agent.Node, data)
		}
	}
}
