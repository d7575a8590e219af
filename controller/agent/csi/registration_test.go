package csi_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	proto "github.com/container-storage-interface/spec/lib/go/csi"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/kubelet"
)

const (
	driverName = "kubevirt.io.hostpath-provisioner"
	seen       = "/var/lib/kubelet/plugins/csi-hostpath/csi.sock"
)

// register serves a registration in a plugin directory until stop.
func register(t *testing.T, dir string) (r *kubelet.Registration, path string, stop func()) {
	t.Helper()
	r, err := kubelet.NewRegistration(driverName, seen)
	if err != nil {
		t.Fatal(err)
	}
	path = kubelet.RegistrationSocket(dir, driverName)
	l, err := kubelet.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	stop = func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			done <- nil // for whoever stops it again
		case <-time.After(3 * time.Second):
			t.Error("still serving")
		}
	}
	t.Cleanup(stop)
	return r, path, stop
}

// What the kubelet does with a socket that it finds.
func TestRegistration(t *testing.T) {
	r, path, stop := register(t, t.TempDir())
	if filepath.Base(path) != driverName+"-reg.sock" {
		t.Errorf("the socket is %s", path)
	}
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Errorf("before the kubelet asked: %v", err)
	}
	kubelet := registration.NewRegistrationClient(dial(t, path))
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{})
	if err != nil || info.Type != "CSIPlugin" || info.Name != driverName || info.Endpoint != seen ||
		strings.Join(info.SupportedVersions, " ") != "1.0.0" {
		t.Fatalf("%v, %v", info, err)
	}
	const words = "node ID is too long"
	for _, row := range []struct {
		says *registration.RegistrationStatus
		want string
	}{
		{&registration.RegistrationStatus{Error: words}, words},
		{&registration.RegistrationStatus{PluginRegistered: true}, ""},
		{&registration.RegistrationStatus{Error: words}, words},
	} {
		if _, err := kubelet.NotifyRegistrationStatus(t.Context(), row.says); err != nil {
			t.Fatal(err)
		}
		err := r.Ready()
		if ok := err == nil; ok != (row.want == "") || !ok && !strings.Contains(err.Error(), row.want) {
			t.Errorf("after %v: %v", row.says, err)
		}
	}
	stop()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
}

func TestRegistrationAfterAKill(t *testing.T) {
	dir := t.TempDir()
	path := kubelet.RegistrationSocket(dir, driverName)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	register(t, dir)
	if _, err := registration.NewRegistrationClient(dial(t, path)).GetInfo(t.Context(), &registration.InfoRequest{}); err != nil {
		t.Error(err)
	}
}

func TestRegistrationNeedsAPath(t *testing.T) {
	for _, path := range []string{"", "csi.sock", "unix:///csi/csi.sock", "/var/lib/../csi.sock", "/csi/"} {
		if _, err := kubelet.NewRegistration(driverName, path); err == nil {
			t.Errorf("%q is taken for the driver's socket", path)
		}
	}
}

// Whoever clears a directory takes the socket away from a process that serves
// it; both kinds come back, and calls under way do not notice.
func TestSocketsComeBack(t *testing.T) {
	dir := t.TempDir()
	_, path, _ := register(t, dir)
	kubelet := registration.NewRegistrationClient(dial(t, path))
	if _, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{}); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t)
	csiPath := filepath.Join(filepath.Dir(d.kubelet), "csi.sock")
	for range 2 {
		for _, p := range []string{path, csiPath} {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
			await(t, p)
			if st, err := os.Lstat(p); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", st, err)
			}
		}
		again := registration.NewRegistrationClient(dial(t, path))
		for _, k := range []registration.RegistrationClient{kubelet, again} {
			if _, err := k.GetInfo(t.Context(), &registration.InfoRequest{}); err != nil {
				t.Error(err)
			}
		}
		for _, id := range []proto.IdentityClient{d, proto.NewIdentityClient(dial(t, csiPath))} {
			if _, err := id.Probe(t.Context(), &proto.ProbeRequest{}); err != nil {
				t.Error(err)
			}
		}
	}
}

// A directory that went with the socket is waited for.
func TestSocketWaitsForItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, path, _ := register(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond) // one attempt, which fails
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	await(t, path)
}

// await waits until somebody serves the socket.
func await(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// The kubelet does not try again by itself what failed, nor what another client undid.
func TestRegistrationIsOfferedAgain(t *testing.T) {
	for what, again := range map[string]func(*kubelet.Registration){
		"after a refusal": func(r *kubelet.Registration) {
			if _, err := r.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such socket"}); err != nil {
				t.Fatal(err)
			}
		},
		"after a call": (*kubelet.Registration).Renew,
	} {
		r, path, _ := register(t, t.TempDir())
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := registration.NewRegistrationClient(dial(t, path)).GetInfo(t.Context(), &registration.InfoRequest{}); err != nil {
			t.Fatal(err) // once it has answered, it is served
		}
		again(r)
		if !isNew(path, before) {
			t.Errorf("%s the kubelet finds the same socket", what)
		}
	}
}

// isNew waits until there is another file than before.
func isNew(path string, before os.FileInfo) bool {
	for range 600 {
		// By its time, because the filesystem may use the inode's number again.
		if now, err := os.Lstat(path); err == nil && !now.ModTime().Equal(before.ModTime()) {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}
