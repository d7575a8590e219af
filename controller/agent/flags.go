package agent

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/volume/pooldir"
)

// Section is a group of flags, as --help and docs/reference/flags.md show them.
type Section struct {
	Title string
	Flags *pflag.FlagSet
}

// Sections returns every flag of the agent, in groups. version is that of the program.
func Sections(version string) []Section { return (&options{version: version}).sections() }

// sections registers every flag of the agent and returns them in groups.
func (o *options) sections() []Section {
	var all []Section
	for _, s := range []struct {
		title    string
		register func(*pflag.FlagSet)
	}{
		{"Node and pools", o.registerPools},
		{"Claims and volumes", o.registerVolumes},
		{"CSI driver", func(f *pflag.FlagSet) { o.driver.register(f, o.version) }},
		{"Orphans", o.orphans.register},
		{"Migration to CSI PVs", o.migrate.register},
		{"Kubernetes API", o.registerAPI},
		{"Health, metrics and logs", o.registerHealth},
	} {
		f := pflag.NewFlagSet(s.title, pflag.ContinueOnError)
		f.SortFlags = false
		s.register(f)
		f.VisitAll(func(f *pflag.Flag) { f.Usage += " [" + Variable(f.Name) + "]" })
		all = append(all, Section{s.title, f})
	}
	return all
}

func (o *options) registerPools(f *pflag.FlagSet) {
	f.StringVar(&o.nodeName, "node-name", "",
		"name of the Node that this agent runs on; required")
	f.StringVar(&o.pvDir, "pv-dir", "",
		"directory of the hostPath volumes; required to serve them. PVs contain this path, so it must be the same in the container and on the node")
	f.StringVar(&o.pvDirMount, "pv-dir-mount", "",
		"--pv-dir or a directory above it that must be a mount point of the host before the agent uses it. The pod's hostPath volume must be the directory above it, with mountPropagation HostToContainer")
	f.StringVar(&o.driver.dataDirs, "datadir", "",
		"pools of the CSI driver as JSON, such as [{\"name\":\"local\",\"path\":\"/var/hpvolumes/csi\"}]. \"mount\" is what --pv-dir-mount is for --pv-dir; a pool with \"shared\": true is not offered; unknown keys are refused. Without it the driver has the pool legacy in --pv-dir; in driver-only mode "+defaultPools)
	f.StringVar(&o.reserve, "reserve", "0",
		"disk space kept free in each pool, such as 10Gi; claims cannot use it")
	f.Float64Var(&o.overcommit, "overcommit", 1,
		"how many times a pool's space may be allocated; never more than is free above --reserve")
	f.BoolVar(&o.btrfsQuota, "enable-btrfs-quota", false,
		"turn on simple quotas on a btrfs that has none. This is permanent: kernels before Linux 6.7 can no longer write to it")
	f.IntVar(&o.purgeRate, "purge-rate", 5000,
		"files per second that the agent may remove from the trash; 0 is unlimited")
}

func (o *options) registerVolumes(f *pflag.FlagSet) {
	o.provision.register(f)
	o.localPath.register(f)
	f.BoolVar(&o.prefix, "use-naming-prefix", false,
		"name directories <claim>-pvc-<uid> instead of pvc-<uid>")
	f.StringVar(&o.reclaimPolicy, "reclaim-policy", "",
		"Delete or Retain, for all PVs that this agent creates, whatever their class says; not in driver-only mode")
	f.StringVar(&o.directoryMode, "directory-mode", "0777",
		"octal mode of new volumes. Without access for others, pods must run as root or own the directory")
	f.StringVar(&o.selinuxLabel, "selinux-label", pooldir.LabelAuto,
		"SELinux label of new volumes; auto is "+pooldir.DefaultLabel+" if the filesystem carries labels; an empty one sets none")
	f.StringVar(&o.capacity, "capacity", "request",
		"capacity that new PVs show: request, or filesystem for the whole disk's size, as older provisioners show it. The agent allocates the request either way")
}

func (o *options) registerAPI(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig file; without it the agent uses its pod's service account")
	f.Float32Var(&o.qps, "kube-api-qps", 200,
		"requests per second to the API server; five times as many at once")
}

func (o *options) registerHealth(f *pflag.FlagSet) {
	f.StringVar(&o.address, "http-address", DefaultAddress,
		"address of /healthz, /readyz, /status and /metrics; an empty one turns them off. Off by default in driver-only mode")
	o.metrics.register(f)
	o.pprof.register(f)
	var logging flag.FlagSet
	klog.InitFlags(&logging)
	f.AddGoFlag(logging.Lookup("v"))
}

// variables are the environment variables of flags that had one before. That of
// any other flag is HPP_ and the flag's name, so that it meets no variable of
// another program in a shared manifest.
var variables = map[string]string{
	"node-name":         "NODE_NAME",
	"pv-dir":            "PV_DIR",
	"pv-dir-mount":      "PV_DIR_MOUNT",
	"datadir":           "DATADIR",
	"provision":         "PROVISION",
	"compat":            "COMPAT",
	"namespace":         "POD_NAMESPACE",
	"use-naming-prefix": "USE_NAMING_PREFIX",
	"reclaim-policy":    "PV_RECLAIM_POLICY",
	"migrate-to-csi":    "MIGRATE_TO_CSI",
	"migrate-from":      "MIGRATE_FROM",
	"migrate-used":      "MIGRATE_USED",
}

// Variable returns the environment variable that sets a flag.
func Variable(flag string) string {
	if name, ok := variables[flag]; ok {
		return name
	}
	return "HPP_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnvironment sets each flag whose environment variable is not empty. The
// error names the first variable with a value that the flag does not accept.
func setFromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		value := os.Getenv(Variable(f.Name))
		if value == "" || err != nil {
			return
		}
		if f.Value.Type() == "bool" { // older provisioners accept any spelling of true
			value = strings.ToLower(value)
		}
		if wrong := flags.Set(f.Name, value); wrong != nil {
			err = fmt.Errorf("environment variable %s: %w", Variable(f.Name), wrong)
		}
	})
	return err
}
