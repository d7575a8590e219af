package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hostLink is a bridge without ports. It has the nodes' addresses and the first service address, on
// which the API server listens, so that pods reach it without a service proxy. Each node has
// another bridge for its pods.
const hostLink = "hpp-e2e0"

func podLink(index int) string   { return fmt.Sprintf("hpp-e2e%d", index+1) }
func podSubnet(index int) string { return fmt.Sprintf("10.244.%d.0/24", index+1) }
func nodeIP(index int) string    { return fmt.Sprintf("10.97.0.%d", 11+index) }

// links returns the names of all interfaces of a cluster with n nodes.
func links(n int) []string {
	list := []string{hostLink}
	for i := range n {
		list = append(list, podLink(i))
	}
	return list
}

// findLinks returns an error if one of the interfaces exists: another cluster is up, and would lose
// it.
func findLinks(names []string) error {
	for _, name := range names {
		if _, err := net.InterfaceByName(name); err == nil {
			return fmt.Errorf("network interface %s exists: a cluster with another state directory is up; end it with "+
				"'cluster down', "+
				"or remove what is left of it with 'ip link delete %s'", name, name)
		}
	}
	return nil
}

// makeHostLink creates hostLink with its addresses. The CNI plugin creates the pods' bridges.
func makeHostLink(nodes int) error {
	if err := ip("link", "add", hostLink, "type", "bridge"); err != nil {
		return err
	}
	addresses := []string{serviceIP}
	for i := range nodes {
		addresses = append(addresses, nodeIP(i))
	}
	for _, a := range addresses {
		if err := ip("address", "add", a+"/32", "dev", hostLink); err != nil {
			return err
		}
	}
	return ip("link", "set", hostLink, "up")
}

// removeLinks deletes those of the interfaces that exist.
func removeLinks(names []string) error {
	var errs []error
	for _, name := range names {
		if _, err := net.InterfaceByName(name); err != nil {
			continue
		}
		errs = append(errs, ip("link", "delete", name))
	}
	return errors.Join(errs...)
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// sysctls are the kernel settings that the kubelet and the bridge plugin change for the whole
// machine.
var sysctls = []string{
	"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom",
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

func readSysctls() map[string]string {
	values := map[string]string{}
	for _, name := range sysctls {
		if data, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			values[name] = strings.TrimSpace(string(data))
		}
	}
	return values
}

// restoreSysctls writes the values that readSysctls read, where they have changed since.
func restoreSysctls(values map[string]string) error {
	now := readSysctls()
	var errs []error
	for name, value := range values {
		if now[name] != value {
			errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644))
		}
	}
	return errors.Join(errs...)
}
