package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The driver says in /readyz what the kubelet said of it, and leaves no socket.
func TestDriverRegistersItself(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	registry := filepath.Join(dir, "plugins_registry")
	if err := os.Mkdir(registry, 0o750); err != nil {
		t.Fatal(err)
	}
	socket, told := filepath.Join(dir, "csi.sock"), filepath.Join(registry, "the.driver-reg.sock")
	address := freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, "test", []string{"--endpoint=unix://" + socket, "--nodeid=node-01", "--drivername=the.driver",
			fmt.Sprintf(`--datadir=[{"name":"local","path":%q}]`, filepath.Join(dir, "pool")), "--http-address=" + address,
			"--kubelet-registration-path=/seen/csi.sock", "--kubelet-dir=" + dir}, &bytes.Buffer{})
	}()
	wantReadyz(t, address, http.StatusServiceUnavailable, "[-] kubelet: ")

	conn, err := grpc.NewClient("unix://"+told, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kubelet := registration.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{})
	if err != nil || info.Name != "the.driver" || info.Endpoint != "/seen/csi.sock" {
		t.Errorf("%v, %v", info, err)
	}
	for _, row := range []struct {
		says   *registration.RegistrationStatus
		status int
		want   string
	}{
		{&registration.RegistrationStatus{Error: "no such topology"}, http.StatusServiceUnavailable, "no such topology"},
		{&registration.RegistrationStatus{PluginRegistered: true}, http.StatusOK, "[+] kubelet ok"},
	} {
		if _, err := kubelet.NotifyRegistrationStatus(t.Context(), row.says); err != nil {
			t.Fatal(err)
		}
		wantReadyz(t, address, row.status, row.want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, path := range []string{socket, told} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// One pool that is not offered is not ready by itself; the other is served.
func TestSharedPoolAlone(t *testing.T) {
	clean(t)
	dir, address := t.TempDir(), freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, "test", []string{"--endpoint=" + dir + "/csi.sock", "--nodeid=node-01", "--http-address=" + address,
			fmt.Sprintf(`--datadir=[{"name":"nfs","path":"%[1]s/no/nfs","shared":true},{"name":"local","path":"%[1]s/pool"}]`, dir)}, &bytes.Buffer{})
	}()
	wantReadyz(t, address, http.StatusServiceUnavailable, "[+] pool "+dir+"/pool ok")
	wantReadyz(t, address, http.StatusServiceUnavailable, "[-] pool "+dir+"/no/nfs: ")
	wantReadyz(t, address, http.StatusServiceUnavailable, "pools shared between nodes are not offered")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDriverWantsThePluginDirectory(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	args := []string{"--endpoint=" + dir + "/csi.sock", "--nodeid=node-01", "--metrics-address=",
		fmt.Sprintf(`--datadir=[{"name":"local","path":%q}]`, filepath.Join(dir, "pool"))}
	for want, more := range map[string][]string{
		"--kubelet-dir":               {"--kubelet-registration-path=/seen/csi.sock", "--kubelet-dir=" + dir + "/none"},
		"--kubelet-registration-path": {"--kubelet-registration-path=csi.sock"},
	} {
		err := Run(t.Context(), "test", append(args, more...), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want words about %s", err, want)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.11.0.3:0") // other tests use other addresses: the port stays free
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// wantReadyz asks until the answer has the status and the words.
func wantReadyz(t *testing.T, address string, status int, words string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, text := readyz(address)
		if got == status && strings.Contains(text, words) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("readyz: %d %q, want %d with %q", got, text, status, words)
		}
	}
}

func readyz(address string) (int, string) {
	res, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(text)
}
