package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// namespace is that of the measured claims.
const namespace = "bench"

// lab is the environment of the measurements: a control plane whose database is durable and whose
// controller-manager is not throttled, the agent as it is released, and the limit program.
type lab struct {
	options
	env    *harness.Env
	client kubernetes.Interface
	limit  string // the program
	disk   *disk  // of the pools; nil if they are in a plain directory
	watch  *watcher
	begin  time.Time
	began  int // number of started programs, each of which has its own address
	ended  context.CancelFunc
}

func newLab(ctx context.Context, o options) (*lab, error) {
	l := &lab{options: o, begin: time.Now()}
	l.say("building the agent, starting a control plane")
	env, err := harness.Settings{Dir: o.dir, Durable: true, ExtraArgs: map[string][]string{"kube-controller-manager": {
		fmt.Sprintf("--kube-api-qps=%d", o.qps), fmt.Sprintf("--kube-api-burst=%d", o.qps*3/2),
	}}}.Start(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	l.env = env
	if there, _ := os.ReadDir(l.pool); len(there) > 0 {
		return nil, errors.Join(fmt.Errorf("--pool %s is not empty; what is in it would be removed at the end", l.pool),
			env.Stop(false))
	}
	err = l.findPlace()
	if err == nil {
		err = l.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.close(true))
	}
	return l, nil
}

// findPlace chooses the pools' directory.
func (l *lab) findPlace() (err error) {
	if l.pool != "" {
		return nil
	}
	l.pool = filepath.Join(l.env.Dir, "pools")
	if l.filesystem != noDisk {
		l.disk, err = newDisk(l.filesystem, l.env.Dir, filepath.Join(l.env.Dir, "disk"))
		l.pool = filepath.Join(l.env.Dir, "disk", "pools")
	}
	return err
}

func (l *lab) prepare(ctx context.Context) error {
	var err error
	if l.client, err = l.newClient(); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := l.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, file := range l.applied {
		if err := command(l.env.Plane.Binaries().Path("kubectl"), "--kubeconfig", l.env.Plane.Kubeconfig(), "apply", "-f",
			file); err != nil {
			return err
		}
	}
	for _, shape := range []string{shapeHostPath, shapeCSI} {
		if err := l.newClass(ctx, limitClass(shape), shape); err != nil {
			return err
		}
	}
	l.limit = filepath.Join(l.env.Dir, "limit")
	if err := command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", l.limit, "./cmd/limit"); err != nil {
		return fmt.Errorf("from the directory e2e: %w", err)
	}
	ctx, l.ended = context.WithCancel(ctx)
	l.watch, err = newWatcher(ctx, l.client)
	return err
}

// newClient returns an administrator's client with its own connection and little overhead, because
// it shares the machine with the measured programs.
func (l *lab) newClient() (kubernetes.Interface, error) {
	config, err := l.env.Plane.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// newClass creates a class that binds as the agent's class of that backend does; its provisioner
// has the same name.
func (l *lab) newClass(ctx context.Context, name, shape string) error {
	mode, policy := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete
	if shape == shapeCSI {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	c := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: provisionerOf(name), VolumeBindingMode: &mode, ReclaimPolicy: &policy,
	}
	_, err := l.client.StorageV1().StorageClasses().Create(ctx, c, metav1.CreateOptions{})
	return err
}

func limitClass(shape string) string { return "limit-" + shape }

// provisionerOf returns a name that is also valid for a CSI driver.
func provisionerOf(class string) string { return class + ".hostpath-provisioner.kubevirt.io" }

// node creates a Node without a kubelet, and returns its name.
func (l *lab) node(ctx context.Context, name string) (string, error) {
	_, err := l.env.Plane.CreateNode(ctx, name, "", map[string]string{harness.TopologyNode: name})
	return name, err
}

// say prints progress to stderr, because the table goes to stdout.
func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(l.begin).Seconds(), fmt.Sprintf(format, args...))
}

// close ends everything and removes the directory, with keep except its logs.
func (l *lab) close(keep bool) error {
	if l.ended != nil {
		l.ended()
	}
	return errors.Join(os.RemoveAll(l.pool), l.disk.unmount(), l.env.Stop(keep))
}

// conditions describes what the figures depend on.
func (l *lab) conditions() string {
	version, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	place := "a plain directory on " + filesystemOf(l.pool)
	if l.disk != nil {
		place = l.disk.String()
	}
	return fmt.Sprintf("Kubernetes %s, etcd with fsync; controller-manager with %d requests a second; pool on %s; Linux "+
		"%s, %d CPUs, load %s at the end",
		l.env.Plane.Version(), l.qps, place, strings.TrimSpace(string(version)), cpus(),
		strings.Fields(string(load) + " ?")[0])
}
