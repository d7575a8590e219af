package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// options are the flags of the agent.
type options struct {
	version       string // of the program
	nodeName      string
	pvDir         string
	pvDirMount    string
	prefix        bool
	reclaimPolicy string
	directoryMode string
	selinuxLabel  string
	reserve       string
	capacity      string
	overcommit    float64
	btrfsQuota    bool
	purgeRate     int
	kubeconfig    string
	qps           float32
	address       string
	metrics       metricsOptions
	pprof         pprofOptions
	provision     provisionOptions
	localPath     localPathOptions
	migrate       migrateOptions
	driver        driverOptions
	orphans       orphanOptions

	// Set by check, from the flags above.
	mode         record.Mode
	policy       corev1.PersistentVolumeReclaimPolicy
	reserveBytes int64
	wholeDisk    bool
	layout       layout
}

// DefaultAddress is the default of --http-address.
const DefaultAddress = ":9898"

// driverOnly reports whether the agent is in driver-only mode: it serves CSI calls and does not use
// the API server.
func (o *options) driverOnly() bool {
	return o.driver.endpoint != "" && !o.provision.hostPath() && !o.provision.csi
}

// parseOptions returns the options of the arguments and the environment, nil if the arguments ask
// for help.
func parseOptions(version string, args []string, out io.Writer) (*options, error) {
	o := &options{version: version}
	sections := o.sections()
	flags := pflag.NewFlagSet("hostpath-provisioner", pflag.ContinueOnError)
	for _, s := range sections {
		flags.AddFlagSet(s.Flags)
	}
	flags.Usage = func() { fmt.Fprintf(out, helpText, usages(sections)) }
	if err := setFromEnvironment(flags); err != nil {
		return nil, err
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w; --help lists the flags", err)
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unknown command %q; the commands are disks, inspect, migrate and version, and --help lists the flags", flags.Arg(0))
	}
	o.provision.set = o.provision.set || flags.Changed("provision")
	if err := o.provision.check(o.driver.endpoint != "", o.prefix); err != nil {
		return nil, err
	}
	o.setAddresses(flags)
	return o, o.check()
}

// check validates the options. The error names the flag and what to do.
func (o *options) check() error {
	o.nodeName = cmp.Or(o.driver.nodeID, o.nodeName)
	if missing := o.missing(); len(missing) > 0 {
		return fmt.Errorf("missing settings: %s", strings.Join(missing, "; "))
	}
	if err := errors.Join(o.driver.check(), o.orphans.check(o.driverOnly())); err != nil {
		return err
	}
	switch o.policy = corev1.PersistentVolumeReclaimPolicy(o.reclaimPolicy); o.policy {
	case "", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain:
	default:
		return fmt.Errorf("reclaim policy %q (PV_RECLAIM_POLICY, --reclaim-policy) is neither Delete nor Retain", o.reclaimPolicy)
	}
	if o.policy != "" && o.driverOnly() {
		return errors.New("--reclaim-policy (PV_RECLAIM_POLICY) is for PVs that the agent creates, and it creates none in driver-only mode: " +
			"leave it out, and set reclaimPolicy in the classes")
	}
	mode, err := record.ParseMode(o.directoryMode)
	if err != nil {
		return fmt.Errorf("--directory-mode: %w", err)
	}
	o.mode = mode
	switch o.capacity {
	case "request":
	case "filesystem":
		o.wholeDisk = true
	default:
		return fmt.Errorf("--capacity %q is neither request nor filesystem", o.capacity)
	}
	reserve, err := resource.ParseQuantity(o.reserve)
	if err != nil || reserve.Sign() < 0 || contract.WholeBytes(&reserve) == math.MaxInt64 {
		return fmt.Errorf("--reserve %q is not a quantity such as 10Gi", o.reserve)
	}
	o.reserveBytes = contract.WholeBytes(&reserve)
	if o.overcommit <= 0 || math.IsNaN(o.overcommit) || math.IsInf(o.overcommit, 0) {
		return fmt.Errorf("--overcommit %v is not a number above zero", o.overcommit)
	}
	if o.purgeRate < 0 || o.qps <= 0 {
		return errors.New("--kube-api-qps must be above zero, --purge-rate not below")
	}
	if err := errors.Join(o.metrics.check(), o.pprof.check(), o.checkAuth()); err != nil {
		return err
	}
	if err := o.migrate.check(o.provision.dialects, o.provision.csi); err != nil {
		return err
	}
	if err := o.localPath.check(o.provision.dialects, o.nodeName); err != nil {
		return err
	}
	o.layout, err = o.newLayout(o.localPath.paths(), (*DataDir).check)
	return err
}

// missing describes every required setting that has no value, and how to set it.
func (o *options) missing() (all []string) {
	add := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	driver := o.driver.endpoint != ""
	add(o.provision.csi && !driver, "the socket of the CSI driver, which mounts the volumes of --provision=csi: set --endpoint")
	add(o.nodeName == "", "the node's name: set NODE_NAME (spec.nodeName by the downward API), --node-name or --nodeid")
	add(o.provision.hostPath() && o.pvDir == "", "the directory of the hostPath volumes: set PV_DIR or --pv-dir")
	add(o.provision.csi && !o.provision.hostPath() && o.pvDir == "" && o.driver.dataDirs == "",
		"the pools of the CSI volumes: set DATADIR or --datadir, or PV_DIR or --pv-dir for a single pool")
	add(o.provision.csi && o.provision.publish && o.provision.namespace == "",
		"the namespace of the capacity objects: set POD_NAMESPACE (metadata.namespace by the downward API) or --namespace; "+
			"or --publish-capacity=false, with storageCapacity: false in the CSIDriver")
	return all
}
