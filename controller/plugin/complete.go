package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// completeWithin is how long a user waits for names after a TAB.
const completeWithin = 2 * time.Second

// complete makes shells complete the arguments and flags of the commands.
func (s *session) complete(root *cobra.Command) {
	root.CompletionOptions.DisableDefaultCmd = true
	first := func(names cobra.CompletionFunc) cobra.CompletionFunc {
		return func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(c, args, toComplete)
		}
	}
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	nodes, pools := s.known(s.nodeNames), s.known(s.poolNames)
	arguments := map[string]cobra.CompletionFunc{"explain": s.known(s.claimNames), "node": nodes, "pools": pools}
	flags := map[string]cobra.CompletionFunc{"node": nodes, "pool": pools, "class": s.known(s.classNames),
		"output":    cobra.FixedCompletions([]string{"wide", "json", "yaml", "name"}, cobra.ShellCompDirectiveNoFileComp),
		"namespace": s.known(s.namespaceNames), "context": s.contextNames}
	for _, c := range append(root.Commands(), root) {
		switch names := arguments[c.Name()]; {
		case names != nil:
			c.ValidArgsFunction = first(names)
		case c.ValidArgs == nil && !c.HasSubCommands():
			c.ValidArgsFunction = none
		}
		for name, values := range flags {
			if c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, values) // it fails for a flag that has one
			}
		}
	}
}

// known completes names that a function reads from the cluster. It completes nothing if that fails,
// or takes longer than a user waits.
func (s *session) known(read func(context.Context) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		s.output = ""
		if s.connect() != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
		defer cancel()
		return read(ctx), none
	}
}

func (s *session) claimNames(ctx context.Context) (names []string) {
	for _, c := range s.reader.Claims(ctx, s.namespace).Items {
		names = append(names, cobra.CompletionWithDesc(c.Name, string(c.Status.Phase)))
	}
	return names
}

func (s *session) nodeNames(ctx context.Context) (names []string) {
	for _, n := range s.reader.Nodes(ctx).Items {
		names = append(names, n.Name)
	}
	return names
}

func (s *session) classNames(ctx context.Context) (names []string) {
	for _, c := range s.reader.Classes(ctx).Items {
		names = append(names, cobra.CompletionWithDesc(c.Name, c.Provisioner))
	}
	return names
}

// poolNames returns the pools that classes name: to ask the agents would take too long.
func (s *session) poolNames(ctx context.Context) (names []string) {
	for _, c := range s.reader.Classes(ctx).Items {
		if _, err := contract.ParametersOf(&c); err == nil && strings.HasPrefix(c.Provisioner, "kubevirt.io") {
			names = append(names, contract.PoolName(c.Parameters))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *session) namespaceNames(ctx context.Context) (names []string) {
	all, err := s.reader.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for _, n := range all.Items {
		names = append(names, n.Name)
	}
	return names
}

// contextNames completes the contexts of the kubeconfig.
func (s *session) contextNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	config, err := s.config.ToRawKubeConfigLoader().RawConfig()
	if err == nil {
		for name := range config.Contexts {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
