package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
	"kubevirt.io/hostpath-provisioner/volume/record"
)

// Options are the settings of an agent. Parse makes them.
type Options struct {
	version       string // of the program
	nodeName      string
	pvDir         string
	pvDirMount    string
	prefix        bool
	reclaimPolicy corev1.PersistentVolumeReclaimPolicy
	mode          record.Mode
	selinuxLabel  string
	reserve       resource.Quantity
	wholeDisk     bool
	overcommit    float64
	btrfsQuota    bool
	purgeRate     int
	copyRate      resource.Quantity
	retention     retentionOptions
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

	layout layout // set by check, from the flags above
}

func (o *Options) targets() map[string]any {
	return map[string]any{
		"node-name": &o.nodeName, "pv-dir": &o.pvDir, "pv-dir-mount": &o.pvDirMount, "datadir": &o.driver.dataDirs,
		"reserve": &o.reserve, "overcommit": &o.overcommit, "enable-btrfs-quota": &o.btrfsQuota, "purge-rate": &o.purgeRate,
		"copy-rate":       &o.copyRate,
		"trash-retention": &o.retention.deleted, "trash-retention-max": &o.retention.most,

		"provision": &o.provision.claims, "compat": &o.provision.compat,
		"publish-capacity": &o.provision.publish, "namespace": &o.provision.namespace,
		"local-path-config": &o.localPath.config, "local-path-namespaces": &o.localPath.namespaces,
		"use-naming-prefix": &o.prefix, "reclaim-policy": &o.reclaimPolicy,
		"directory-mode": &o.mode, "selinux-label": &o.selinuxLabel, "capacity": &o.wholeDisk,

		"endpoint": &o.driver.endpoint, "drivername": &o.driver.name, "nodeid": &o.driver.nodeID,
		"inline-volumes": &o.driver.inline,
		"version":        &o.driver.version, "kubelet-dir": &o.driver.kubeletDir,
		"kubelet-registration-path": &o.driver.socketSeen,

		"orphans": &o.orphans.remove, "orphan-grace": &o.orphans.grace,

		"migrate-to-csi": &o.migrate.mode, "migrate-from": &o.migrate.others, "migrate-used": &o.migrate.used,

		"kubeconfig": &o.kubeconfig, "kube-api-qps": &o.qps,

		"http-address": &o.address, "pprof-address": &o.pprof.address, "v": new(klog.Level),
		"metrics-address": &o.metrics.address, "metrics-per-volume": &o.metrics.volumes, "metrics-auth": &o.metrics.tokens,
		"metrics-cert-file": &o.metrics.cert, "metrics-key-file": &o.metrics.key, "metrics-tls-version": &o.metrics.tls,
	}
}

// driverOnly reports whether the agent is in driver-only mode: it serves CSI calls and does not use
// the API server.
func (o *Options) driverOnly() bool {
	return o.driver.endpoint != "" && !o.provision.hostPath() && !o.provision.csi
}

// Parse returns the options of arguments and environment, nil if help was asked for.
func Parse(version string, args []string, out io.Writer) (*Options, error) {
	o := &Options{version: version}
	table := settings.Agent(version)
	flags, err := settings.Parse(table, args, o.targets(), "the commands are disks, inspect, migrate and version",
		func() { fmt.Fprintf(out, helpText, usages(table)) })
	if flags == nil {
		return nil, err
	}
	_, set := os.LookupEnv(settings.Provision)
	o.provision.set = set || flags.Changed("provision") || flags.Lookup("compat").Value.String() != ""
	o.provision.pod = os.Getenv(settings.PodName)
	o.retention.set = flags.Changed("trash-retention-max")
	if err := o.provision.check(o.driver.endpoint != "", o.prefix); err != nil {
		return nil, err
	}
	o.setAddresses(flags)
	return o, o.check()
}

// check validates what no row of the table can: flags that need others, and paths. The error names
// the flag and what to do.
func (o *Options) check() (err error) {
	o.nodeName = cmp.Or(o.driver.nodeID, o.nodeName)
	if missing := o.missing(); len(missing) > 0 {
		return fmt.Errorf("missing settings: %s", strings.Join(missing, "; "))
	}
	switch {
	case o.orphans.remove && o.driverOnly():
		return errors.New("--orphans=delete compares volumes with PVs, which the agent does not see in driver-only mode: " +
			"set --provision, or leave that flag out")
	case o.reclaimPolicy != "" && o.driverOnly():
		return errors.New("--reclaim-policy (PV_RECLAIM_POLICY) is for PVs that the agent creates, and it creates none " +
			"in driver-only mode: leave it out, and set reclaimPolicy in the classes")
	}
	if err := cmp.Or(o.retention.check(o.driverOnly()), o.driver.check(), o.metrics.check(o.driverOnly()),
		o.migrate.check(o.provision.dialects, o.provision.csi),
		o.localPath.check(o.provision.dialects, o.nodeName, o.pvDir)); err != nil {
		return err
	}
	o.layout, err = o.newLayout(o.localPath.paths(), (*DataDir).check)
	return err
}

// missing describes every required setting that has no value, and how to set it.
func (o *Options) missing() (all []string) {
	add := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	driver := o.driver.endpoint != ""
	add(o.provision.csi && !driver, "the socket of the CSI driver, which mounts the volumes of --provision=csi: set "+
		"--endpoint")
	add(o.nodeName == "", "the node's name: set NODE_NAME (spec.nodeName by the downward API), --node-name or --nodeid")
	add(o.provision.hostPath() && o.pvDir == "", "the directory of the hostPath volumes: set PV_DIR or --pv-dir")
	add(o.provision.csi && !o.provision.hostPath() && o.pvDir == "" && o.driver.dataDirs == "",
		"the pools of the CSI volumes: set DATADIR or --datadir, or PV_DIR or --pv-dir for a single pool")
	add(o.provision.csi && o.provision.publish && o.provision.namespace == "",
		"the namespace of the capacity objects: set POD_NAMESPACE (metadata.namespace by the downward API) or --namespace; "+
			"or --publish-capacity=false, with storageCapacity: false in the CSIDriver")
	return all
}
