package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Operator is the operator as a process of this machine, with the permissions of
// manifests/operator.
type Operator struct {
	scene        *Scene
	program      string
	kubeconfig   string
	log, address string
	metrics      string
	// Webhook is the address of the admission. The API server has no route to it.
	Webhook string
	cmd     *exec.Cmd
}

// OperatorAccount is the operator's account.
const OperatorAccount = "hostpath-provisioner-operator"

// Operator installs the operator, and starts it. At the end of the test it is killed; if the test
// failed, its log is printed.
func (s *Scene) Operator() *Operator {
	s.Helper()
	s.must("apply manifests/operator", s.kubectl("apply", "--server-side", "-k", s.manifests("operator")))
	// No kubelet runs its pods; the operator is a process.
	s.must("delete the Deployment", s.Client.AppsV1().Deployments(Namespace).DeleteCollection(s.Context(),
		metav1.DeleteOptions{}, metav1.ListOptions{}))
	kubeconfig, err := s.Plane.ServiceAccountKubeconfig(s.Context(), Namespace, OperatorAccount)
	s.must("token", err)
	program, err := s.Manager()
	s.must("build the operator", err)
	n := agents.Add(1)
	o := &Operator{scene: s, program: program, kubeconfig: kubeconfig, log: s.Path("logs", "operator.log"),
		address: s.loopback(n, 6060), metrics: s.loopback(n, 8443), Webhook: s.loopback(n, 9443)}
	s.Cleanup(o.finish)
	o.Start()
	return o
}

func (s *Scene) manifests(name string) string {
	s.Helper()
	root, err := root()
	s.must("find manifests", err)
	return root + "/manifests/" + name
}

// Start starts the operator and waits until it is healthy.
func (o *Operator) Start() {
	s := o.scene
	s.Helper()
	log, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	s.must("open log", err)
	defer log.Close()
	o.cmd = exec.Command(o.program, "--kubeconfig="+o.kubeconfig, "--health-address="+o.address,
		"--metrics-address="+o.metrics, "--webhook-address="+o.Webhook)
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.cmd.Env = []string{"OPERATOR_IMAGE=registry.invalid/test:v1", quickExit, s.times()}
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.must("start operator", o.cmd.Start())
	s.Eventually("operator healthy", func() error {
		r, err := http.Get("http://" + o.address + "/readyz")
		if err == nil {
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				err = fmt.Errorf("readyz: %s", r.Status)
			}
		}
		return err
	})
}

// MetricsAddress returns the address of the operator's metrics.
func (o *Operator) MetricsAddress() string { return o.metrics }

// Through has the next Start reach the API server at another address, whose certificate is not
// verified.
func (o *Operator) Through(address string) {
	s := o.scene
	s.Helper()
	config, err := clientcmd.LoadFromFile(o.kubeconfig)
	s.must("read kubeconfig", err)
	for _, c := range config.Clusters {
		*c = clientcmdapi.Cluster{Server: address, InsecureSkipTLSVerify: true}
	}
	o.kubeconfig = s.Path("operator", "kubeconfig")
	s.must("write kubeconfig", clientcmd.WriteToFile(*config, o.kubeconfig))
}

// Kill kills the operator, and returns when it has ended. It removes the lease, which another
// operator would await.
func (o *Operator) Kill() {
	s := o.scene
	s.Helper()
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait() // it was killed
	err := s.Client.CoordinationV1().Leases(Namespace).Delete(s.Context(), OperatorAccount+"-lock", metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) { // it was killed before it had one
		s.must("remove the lease", err)
	}
}

// Stop ends the operator as a kubelet does, so that it gives up its lease.
func (o *Operator) Stop() {
	o.scene.Helper()
	o.scene.must("SIGTERM", o.cmd.Process.Signal(syscall.SIGTERM))
	_ = o.cmd.Wait() // the lease ends with it, whatever its exit code
}

func (o *Operator) finish() {
	s := o.scene
	if o.cmd == nil || o.cmd.Process == nil {
		return
	}
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait() // it was killed
	log, err := os.ReadFile(o.log)
	s.must("read log", err)
	if i := strings.Index(string(log), "WARNING: DATA RACE"); i >= 0 {
		s.Errorf("operator: a data race:\n%s", log[i:min(len(log), i+6000)])
	}
	if s.Failed() {
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		s.Logf("the last lines of the operator:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

// Kubelets sets the pods of the agents' DaemonSets ready, and removes those that are deleted, as
// kubelets do, until the test ends. Pods on nodes for which broken returns true are not ready. Pods
// that are ready publish their pools as open, as agents do.
func (s *Scene) Kubelets(broken func(node string) bool) {
	s.eachPod(func(ctx context.Context, pods corev1client.PodInterface, pod *corev1.Pod) {
		if pod.DeletionTimestamp != nil {
			_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) // or at the next pass
			return
		}
		want := corev1.ConditionTrue
		if broken(pod.Spec.NodeName) {
			want = corev1.ConditionFalse
		}
		if pod.Spec.NodeName == "" || OfJob(pod) {
			return
		}
		if want == corev1.ConditionTrue && publishesPools(pod) {
			s.publishPools(ctx, pod)
		}
		if ready(pod) == want {
			return
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`,
			want, time.Now().UTC().Format(time.RFC3339))
		// as above
		_, _ = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	})
}

// publishesPools reports whether the pod is that of an agent which publishes its pools.
func publishesPools(pod *corev1.Pod) bool {
	probe := pod.Spec.Containers[0].ReadinessProbe
	return probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Path == "/readyz/agent"
}

// publishPools publishes the pools of the pod of an agent as open.
func (s *Scene) publishPools(ctx context.Context, pod *corev1.Pod) {
	type pool struct {
		Name   string `json:"name"`
		Path   string `json:"path"`
		ID     string `json:"id"`
		Open   bool   `json:"open"`
		OpenIn string `json:"openIn"`
	}
	pools := []pool{}
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == "DATADIR" {
			_ = json.Unmarshal([]byte(v.Value), &pools) // names and paths
		}
	}
	for i := range pools {
		pools[i].ID, pools[i].Open, pools[i].OpenIn = pod.Spec.NodeName+"-"+pools[i].Name, true, pod.Name
	}
	text, err := json.Marshal(map[string]any{"pod": pod.Name, "pools": pools})
	s.must("publish pools", err)
	annotations := map[string]string{"hostpath-provisioner.kubevirt.io/pools": string(text)}
	objects := s.Client.StorageV1().CSIStorageCapacities(Namespace)
	o := &storagev1.CSIStorageCapacity{StorageClassName: "pools.hostpath-provisioner.kubevirt.io",
		ObjectMeta:   metav1.ObjectMeta{Namespace: Namespace, Name: "pools." + pod.Spec.NodeName, Annotations: annotations},
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{TopologyNode: pod.Spec.NodeName}}}
	have, err := objects.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, _ = objects.Create(ctx, o, metav1.CreateOptions{}) // or at the next pass
	case err == nil && !maps.Equal(have.Annotations, annotations):
		have.Annotations = annotations
		_, _ = objects.Update(ctx, have, metav1.UpdateOptions{}) // as above
	}
}

// eachPod calls do for each pod of the agents' namespace, again and again until the test ends.
func (s *Scene) eachPod(do func(context.Context, corev1client.PodInterface, *corev1.Pod)) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.Cleanup(func() { stop(); <-done })
	pods := s.Client.CoreV1().Pods(Namespace)
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // the API server may be away
			}
			for i := range list.Items {
				do(ctx, pods, &list.Items[i])
			}
		}
	}()
}

func ready(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}
