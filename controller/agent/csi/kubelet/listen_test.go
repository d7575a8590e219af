package kubelet_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
)

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "csi.sock")
	for _, endpoint := range []string{"unix://" + path, "unix:/" + strings.TrimPrefix(path, "/"),
		"unix://" + strings.TrimPrefix(path, "/"), path} {
		l, err := kubelet.Listen(endpoint)
		if err != nil {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		st, err := os.Lstat(path)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", endpoint, st, err)
		}
		if _, err := kubelet.Listen(endpoint); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("%s is taken: %v", endpoint, err)
		}
		l.Close()
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s: the socket is left", endpoint)
		}
	}
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	for endpoint, want := range map[string]string{
		"tcp://127.0.0.1:1": "tcp is not supported", "dns:///x": "dns is not supported", "": "no socket", "unix://": "no socket",
		"unix:///": "no socket", "unix://" + dir + "/": "no socket", dir + "/file": "not a socket", dir + "/none/s": "no such file",
	} {
		if _, err := kubelet.Listen(endpoint); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want words %q", endpoint, err, want)
		}
	}
}

// What a killed process leaves is replaced, and a predecessor that stops late
// leaves its successor's socket alone.
func TestListenAfterOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "csi.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	first, err := kubelet.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	second, err := kubelet.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the successor's socket is gone: %v", err)
	}
}
