package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubevirt.io/hostpath-provisioner/controller/plugin/view"
)

func (s *session) versionCommand() *cobra.Command {
	client := false
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin and of the agents",
		Long: "version prints the version of the plugin and the images of the agents.\n\nPermissions: list pods of all " +
			"namespaces; none with --client.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.printVersion(c.Context(), client) },
	}
	c.Flags().BoolVar(&client, "client", false, "print the version of the plugin only")
	return c
}

// Versions are what version prints for programs.
type Versions struct {
	Plugin string `json:"plugin"`
	// Agents are the numbers of agents by image.
	Agents  map[string]int `json:"agents,omitempty"`
	Unknown string         `json:"unknown,omitempty"`
}

func (s *session) printVersion(ctx context.Context, client bool) error {
	v := Versions{Plugin: s.version, Agents: map[string]int{}}
	if !client {
		if err := s.connect(); err != nil {
			return err
		}
		found := s.reader.Agents(ctx)
		v.Unknown = found.Unknown
		for _, a := range found.Items {
			v.Agents[a.Image]++
		}
	}
	if s.isData() {
		return view.Data(s.Out, s.output, v)
	}
	fmt.Fprintf(s.Out, "plugin   %s\n", v.Plugin)
	var images []string
	for _, image := range slices.Sorted(maps.Keys(v.Agents)) {
		images = append(images, fmt.Sprintf("%s (%d)", view.Printable(image), v.Agents[image]))
	}
	switch {
	case v.Unknown != "":
		fmt.Fprintf(s.Out, "agents   unknown: %s\n", v.Unknown)
	case len(images) > 0:
		fmt.Fprintf(s.Out, "agents   %s\n", strings.Join(images, ", "))
	case !client:
		fmt.Fprintln(s.Out, "agents   none")
	}
	return nil
}
