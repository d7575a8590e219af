package nodes

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/cluster"
	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// standIn is the image of e2e/cmd/standin.
const standIn = "localhost/hpp-e2e/standin:latest"

// The existing operator deploys its driver, and the image is ours. The pool is the node's whole
// directory, as that operator has it where it runs an agent besides, so volumes lie where they do
// in TestCSI.
func TestSwapIn(t *testing.T) {
	standInImage(t)
	manifest := filepath.Join("testdata", "swapin.yaml")
	f := csiForm{
		apply: []string{"-f", manifest}, label: "app.kubernetes.io/managed-by=hostpath-provisioner-operator",
		noSpace: csiWithSidecar.noSpace,
	}
	loadSidecar(t)
	t.Cleanup(func() { f.undeploy(t, manifest) })
	f.deploy(t)
	csiTogether(t, "Group", map[string]csiRow{
		"registered": csiRegistered, "persists": csiPersists, "generic": csiGeneric, "inline": csiInline,
		"readonly": csiReadOnly, "fsgroup": csiFSGroup, "toobig": csiTooBig, "nospace": f.csiNoSpace,
		"metrics": swapInMetrics, "health": swapInHealth, "older": swapInOlder,
	})
	t.Run("steady", func(t *testing.T) { swapInSteady(t, newScene(t)) })
	t.Run("restart", func(t *testing.T) { csiRestart(t, newScene(t)) })
	t.Run("permitted", f.permitted)
}

// standInImage puts the stand-in of the standard sidecars onto the nodes.
func standInImage(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "standin")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "../cmd/standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	loadProgram(t, standIn, program)
}

// Prometheus asks every pod where it always did, and finds what the alert is made of.
func swapInMetrics(t *testing.T, s *harness.Scene) {
	const line = `kubevirt_hpp_pool_path_shared_with_os{pool="local"} 1`
	for _, n := range local.Nodes() {
		p, err := podOf(s, n, csiSet)
		must(s, "driver", err)
		url := "https://" + net.JoinHostPort(p.Status.PodIP, "8443") + "/metrics"
		if _, err := ask(url, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
			t.Errorf("%s: answered with TLS 1.2", url)
		}
		r, err := ask(url, &tls.Config{InsecureSkipVerify: true})
		must(s, "metrics", err)
		defer r.Body.Close()
		for _, host := range []string{p.Status.PodIP, "hpp-prometheus-metrics." + harness.Namespace + ".svc"} {
			if err := namesHost(r.TLS.PeerCertificates, host); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
		// The node's pool and its kubelet are on one disk of this machine.
		found := false
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			found = found || lines.Text() == line
		}
		if !found || r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, no line %q", url, r.StatusCode, line)
		}
	}
}

// namesHost returns nil where the first certificate is for the host, whoever signed it.
func namesHost(chain []*x509.Certificate, host string) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	return chain[0].VerifyHostname(host)
}

// ask gets the URL from this machine, which reaches pods by their address. The caller closes the
// body.
func ask(url string, config *tls.Config) (*http.Response, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return client.Get(url)
}

// The health port is the liveness probe's, and the driver behind it answers. The driver itself
// would have readyz, too.
func swapInHealth(t *testing.T, s *harness.Scene) {
	for _, n := range local.Nodes() {
		p, err := podOf(s, n, csiSet)
		must(s, "driver", err)
		for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusNotFound} {
			r, err := ask("http://"+net.JoinHostPort(p.Status.PodIP, "9898")+path, nil)
			must(s, "ask "+path, err)
			r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s: %s says %d, want %d", n.Name, path, r.StatusCode, want)
			}
		}
	}
}

// No container ended since it started, so no port was taken.
func swapInSteady(t *testing.T, s *harness.Scene) {
	for _, n := range local.Nodes() {
		p, err := podOf(s, n, csiSet)
		must(s, "driver", err)
		if len(p.Status.ContainerStatuses) != 4 {
			t.Errorf("%s: %d containers, want 4", n.Name, len(p.Status.ContainerStatuses))
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount != 0 || !c.Ready {
				t.Errorf("%s: %s was started again %d times; ready %v; ended %+v", n.Name, c.Name, c.RestartCount, c.Ready, c.LastTerminationState.Terminated)
			}
		}
	}
}

// A volume of the driver that was there before: its directory has no record, and its PV says the
// disk's size. One that a pod uses is taken over, and one that nobody uses any more goes like any
// other.
func swapInOlder(t *testing.T, s *harness.Scene) {
	used, unused := older(s, one, "local"), older(s, one, "local")
	p := pod{claim: used.Name, script: "cat /data/file && echo newer >/data/newer"}.run(s)
	if got := output(s, p); got != "older\n" || p.Spec.NodeName != one.Name {
		t.Errorf("the pod on %s reads %q", p.Spec.NodeName, got)
	}
	if got := command(s, "stat", "-c", "%a %u", csiPath(one, harness.PVName(used))); got != "755 0\n" {
		t.Errorf("mode and owner became %q", got)
	}
	end(s, p)
	again := pod{claim: used.Name, script: "cat /data/newer"}.run(s)
	if got := output(s, again); got != "newer\n" {
		t.Errorf("the next pod reads %q", got)
	}
	end(s, again)
	for _, claim := range []*corev1.PersistentVolumeClaim{used, unused} {
		s.Delete(claim)
		s.Gone(harness.PVName(claim))
		csiGone(s, harness.PVName(claim))
	}
}

// older is a claim as the older driver served it on the node from the pool: a directory with a file,
// and a PV.
func older(s *harness.Scene, n *cluster.Node, pool string) *corev1.PersistentVolumeClaim {
	s.Helper()
	claim := csiClaim(s)
	dir := csiPath(n, harness.PVName(claim))
	must(s, "make directory", os.Mkdir(dir, 0o755))
	must(s, "write", os.WriteFile(filepath.Join(dir, "file"), []byte("older\n"), 0o644))
	_, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), olderPV(claim, n, pool), metav1.CreateOptions{})
	must(s, "create PV", err)
	s.Bound(claim)
	return claim
}

// olderPV is what the older driver and its sidecar make for the claim on the node from the pool.
func olderPV(claim *corev1.PersistentVolumeClaim, n *cluster.Node, pool string) *corev1.PersistentVolume {
	name := harness.PVName(claim)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:       name,
			Finalizers: []string{"kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"},
			Annotations: map[string]string{
				harness.AnnProvisionedBy:                                     csiDriver,
				"volume.kubernetes.io/provisioner-deletion-secret-name":      "",
				"volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("251Gi")},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              csiClass,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: csiDriver, VolumeHandle: name, FSType: "xfs",
				VolumeAttributes: map[string]string{
					"csi.storage.k8s.io/pv/name":                   name,
					"csi.storage.k8s.io/pvc/name":                  claim.Name,
					"csi.storage.k8s.io/pvc/namespace":             claim.Namespace,
					"storage.kubernetes.io/csiProvisionerIdentity": "1753340000000-8081-" + csiDriver + "-" + strings.ToLower(n.Name),
					"storagePool": pool,
				},
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: csiTopology, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name},
				}}}},
			}},
		},
	}
}
