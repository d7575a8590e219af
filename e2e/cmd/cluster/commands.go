package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubevirt.io/hostpath-provisioner/e2e/cluster"
)

func up(ctx context.Context, args []string) error {
	o := cluster.UpOptions{Log: os.Stdout, Hostnames: map[string]string{}}
	nodes, err := strconv.Atoi(environment("NODES", "1"))
	if err != nil {
		return fmt.Errorf("NODES: %w", err)
	}
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.IntVar(&o.Nodes, "nodes", nodes, "number of nodes")
	flags.StringVar(&o.Version, "k8s-version", version(), "Kubernetes version")
	flags.Func("hostname", "NODE=LABEL: the node's kubernetes.io/hostname label", func(value string) error {
		node, label, ok := strings.Cut(value, "=")
		if !ok {
			return errors.New("want NODE=LABEL")
		}
		o.Hostnames[node] = label
		return nil
	})
	if err := parse(flags, args); err != nil {
		return err
	}
	c, err := cluster.Up(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println("export KUBECONFIG=" + c.ControlPlane().Kubeconfig())
	return nil
}

func down(_ context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("down", flag.ContinueOnError), args); err != nil {
		return err
	}
	return cluster.Down("", os.Stdout)
}

func status(ctx context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("status", flag.ContinueOnError), args); err != nil {
		return err
	}
	c, err := cluster.Open("")
	if err != nil {
		return err
	}
	fmt.Printf("kubernetes %s at %s\nkubeconfig %s\n\n", c.ControlPlane().Version(), c.ControlPlane().URL(),
		c.ControlPlane().Kubeconfig())
	ready := readiness(ctx, c)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NODE\tREADY\tIP\tHOSTNAME LABEL\tVOLUMES")
	for _, n := range c.Nodes() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", n.Name, ready[n.Name], n.IP, n.Hostname, n.VolumesDir())
	}
	fmt.Fprintln(table, "\nPROCESS\tPID\tLOG")
	var ended []string
	for _, p := range c.Status() {
		pid := strconv.Itoa(p.PID)
		if p.PID == 0 {
			pid = "ended"
			ended = append(ended, p.Name)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Name, pid, p.Log)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(ended) > 0 {
		return fmt.Errorf("ended: %s", strings.Join(ended, ", "))
	}
	return nil
}

// readiness reads the state of the nodes from the API server; a node that is missing is "unknown".
func readiness(ctx context.Context, c *cluster.Cluster) map[string]string {
	ready := map[string]string{}
	for _, n := range c.Nodes() {
		ready[n.Name] = "unknown"
	}
	client, err := c.ControlPlane().Client()
	if err != nil {
		return ready
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return ready
	}
	for _, node := range list.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				ready[node.Name] = string(condition.Status)
			}
		}
	}
	return ready
}

func build(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	wanted := flags.String("k8s-version", version(), "Kubernetes version")
	if err := parse(flags, args); err != nil {
		return err
	}
	bins, err := cluster.Build(ctx, *wanted, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(bins.Path("kubectl"))
	return nil
}

func load(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("load: name the archives to import")
	}
	c, err := cluster.Open("")
	if err != nil {
		return err
	}
	for _, tar := range args {
		if err := c.Load(ctx, tar); err != nil {
			return err
		}
		fmt.Printf("loaded %s on %d nodes\n", tar, len(c.Nodes()))
	}
	return nil
}

func image(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	binary := flags.String("binary", "", "the static program")
	name := flags.String("name", "", "the image's name, with registry and tag")
	out := flags.String("out", "", "the archive to write")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *binary == "" || *name == "" || *out == "" {
		return errors.New("image: --binary, --name and --out are all needed")
	}
	m, err := cluster.BinaryImage(*name, *binary)
	if err != nil {
		return err
	}
	return cluster.WriteImage(m, *out)
}

func execute(ctx context.Context, args []string) error {
	if len(args) > 1 && args[1] == "--" {
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) < 2 {
		return errors.New("exec: want NODE -- CMD ARG")
	}
	n, err := node(args[0])
	if err != nil {
		return err
	}
	cmd, err := n.Command(ctx, args[1:]...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &printedError{exit}
	}
	return err
}

func stopKubelet(_ context.Context, args []string) error {
	n, err := only("stop-kubelet", args)
	if err != nil {
		return err
	}
	return n.StopKubelet()
}

func startKubelet(ctx context.Context, args []string) error {
	n, err := only("start-kubelet", args)
	if err != nil {
		return err
	}
	if err := n.StartKubelet(); err != nil {
		return err
	}
	return n.AwaitReady(ctx)
}

// only returns the one node that the arguments of a command name.
func only(command string, args []string) (*cluster.Node, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%s: name one node", command)
	}
	return node(args[0])
}

func nodeDir(_ context.Context, args []string) error {
	n, err := only("node-dir", args)
	if err != nil {
		return err
	}
	fmt.Println(n.VolumesDir())
	return nil
}

func kubeconfig(_ context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("kubeconfig", flag.ContinueOnError), args); err != nil {
		return err
	}
	c, err := cluster.Open("")
	if err != nil {
		return err
	}
	fmt.Println(c.ControlPlane().Kubeconfig())
	return nil
}

func node(name string) (*cluster.Node, error) {
	c, err := cluster.Open("")
	if err != nil {
		return nil, err
	}
	return c.Node(name)
}

// parse parses flags and refuses other arguments.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: do not understand %q", flags.Name(), flags.Args())
	}
	return nil
}

func version() string { return environment("K8S_VERSION", cluster.DefaultVersion) }

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
