package agent

import (
	"cmp"

	"kubevirt.io/hostpath-provisioner/controller/agent/backends"
	"kubevirt.io/hostpath-provisioner/controller/agent/capacity"
	"kubevirt.io/hostpath-provisioner/controller/agent/claims"
	"kubevirt.io/hostpath-provisioner/controller/agent/csi"
	"kubevirt.io/hostpath-provisioner/controller/agent/nodeinfo"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/settings"
)

// space returns how claims find the nodes that publish space, nil if this one does not.
func (a *Agent) space(of *backends.Backends) *claims.Space {
	if !a.publishes() {
		return nil
	}
	return &claims.Space{
		Provisioner: a.Options.driver.name, Namespace: a.provision.namespace, HasPool: of.HasPool, Fit: of.Fit,
	}
}

// publishes reports whether the agent publishes available space for the scheduler.
func (a *Agent) publishes() bool { return a.provision.csi && a.provision.publish }

func (a *Agent) newPublisher() (err error) {
	if !a.publishes() {
		return nil
	}
	a.publisher, err = capacity.New(capacity.Config{
		Client: a.client, Node: a.nodeName, Driver: a.Options.driver.name,
		Namespace: a.provision.namespace, Pod: cmp.Or(a.outside.Pod, a.provision.pod), Pools: a.pools,
	})
	return err
}

func (a *Agent) newDriver() (err error) {
	d := &a.Options.driver
	if d.endpoint == "" {
		return nil
	}
	a.driver, err = csi.New(csi.Config{
		DriverName: d.name, Version: d.version, NodeID: a.nodeName, KubeletDir: d.kubeletDir, Pools: a.pools,
		Changed:   a.changed,
		Inline:    d.inline,
		WholeDisk: a.wholeDisk, Adopt: !a.provision.csi, Unknown: a.unknown, Unpublished: a.unpublished,
	})
	if err == nil {
		a.kubelet, err = d.registration()
	}
	if err == nil && a.provision.csi {
		var registration nodeinfo.Registration
		if a.kubelet != nil {
			registration = a.kubelet
		}
		a.seen = nodeinfo.NewDriver(a.client, a.info, d.name, registration, a.recorder, a.installCommand())
	}
	return err
}

// installCommand returns the command that makes the objects of this installation again, by its
// settings. An overlay of an administrator's own has the same settings, and another command.
func (a *Agent) installCommand() string {
	form := "csi"
	switch {
	case a.migrate.mode != settings.MigrateOff:
		form = "examples/migrate"
	case len(a.layout.hostPath[contract.HostPathProvisioner]) > 0:
		form = "examples/both-modes"
	case a.Options.driver.kubeletDir != settings.DefaultKubeletDir:
		form = "examples/kubelet-dir"
	}
	return "apply manifests/" + form + " with your image, as the agents were installed (docs/install.md)"
}
