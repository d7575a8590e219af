package agent

import (
	"io"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/operator/agentenv"
)

// environmentValues are values of the settings that the operator passes on: those that the agent accepts, and others.
var environmentValues = map[string]struct{ good, bad []string }{
	"HPP_RESERVE":            {[]string{"0", "10Gi", "1e3"}, []string{"-1", "lots", "10GiB"}},
	"HPP_OVERCOMMIT":         {[]string{"1", "2.5", "1e3"}, []string{"0", "-1", "NaN", "Inf", "twice"}},
	"HPP_ENABLE_BTRFS_QUOTA": {[]string{"true", "FALSE", "1"}, []string{"yes"}},
	"HPP_PURGE_RATE":         {[]string{"0", "5000", "0x10"}, []string{"-1", "1.5", "fast"}},
	"HPP_PUBLISH_CAPACITY":   {[]string{"true", "False"}, []string{"on"}},
	"HPP_KUBE_API_QPS":       {[]string{"0.5", "200"}, []string{"0", "-1", "fast"}},
	"HPP_METRICS_PER_VOLUME": {[]string{"true"}, []string{"yes"}},
	"HPP_CAPACITY":           {[]string{"request", "filesystem"}, []string{"disk"}},
	"HPP_SELINUX_LABEL":      {[]string{"auto", "system_u:object_r:container_file_t:s0"}, nil},
	"HPP_ORPHANS":            {[]string{"report", "delete"}, []string{"Delete", "keep"}},
	"PV_RECLAIM_POLICY":      {[]string{"Delete", "Retain"}, []string{"Recycle", "retain"}},
	"MIGRATE_USED":           {[]string{"true"}, []string{"yes"}},
	"HPP_DIRECTORY_MODE":     {[]string{"0770", "1777"}, []string{"4777", "0", "rwx", "999"}},
	agentenv.MigrateToCSI:    {[]string{"off", "plan", "run", "back", "annotated"}, []string{"on"}},
	"MIGRATE_FROM":           {[]string{"hostpath", "hostpath,rancher.io/local-path"}, []string{"others"}},
	"HPP_ORPHAN_GRACE":       {[]string{"0", "24h", "1h30m"}, []string{"-1s", "1d", "soon"}},
	agentenv.KubeletDir:      {[]string{"/data/kubelet"}, nil}, // the agent accepts any path
}

// TestOperatorEnvironment compares what the operator passes on with what the agent accepts: a value that the agent refuses would
// end all agents.
func TestOperatorEnvironment(t *testing.T) {
	for name, value := range map[string]string{"NODE_NAME": "node-01", "PV_DIR": "/var/hpvolumes", "PROVISION": "hostpath,csi",
		"HPP_ENDPOINT": "unix:///csi/csi.sock", "POD_NAMESPACE": "ns"} {
		t.Setenv(name, value)
	}
	for _, name := range agentenv.Names() {
		row := environmentValues[name]
		if len(row.good) == 0 {
			t.Errorf("%s has no values here", name)
		}
		for i, value := range append(row.good, row.bad...) {
			t.Setenv(name, value)
			_, problems := agentenv.Parse(map[string]string{name: value})
			_, err := parseOptions("v1", nil, io.Discard)
			if good := i < len(row.good); good != (len(problems) == 0) || good != (err == nil) {
				t.Errorf("%s is %q: the operator finds %q, the agent %v; want an error: %v", name, value, problems, err, !good)
			}
		}
		t.Setenv(name, "")
	}
}
