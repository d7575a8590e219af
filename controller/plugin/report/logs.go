package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// logSince is how old lines of logs may be.
	logSince = time.Hour
	// logLines and logBytes bound each log: the newest lines, and the first bytes of these.
	logLines = 10_000
	logBytes = 2 << 20
	// logsAtOnce is how many logs are read, and kept in memory, at the same time.
	logsAtOnce = 16
)

// logFile is one log of a container.
type logFile struct {
	name string
	data []byte
	why  string
}

// logs adds the logs of the pods' containers: of the last hour, and of the container before if it
// was restarted. It waits for each as long as timeout.
func (b *bundle) logs(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod, timeout time.Duration) {
	type wanted struct {
		pod       *corev1.Pod
		container string
		previous  bool
	}
	var all []wanted
	for i := range pods {
		pod := &pods[i]
		for _, c := range pod.Spec.Containers {
			if !slices.Contains(containers, c.Name) {
				b.missing(logName(pod, c.Name, false), "the container is not of hostpath-provisioner")
				continue
			}
			all = append(all, wanted{pod, c.Name, false})
			if slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
				return s.Name == c.Name && s.RestartCount > 0
			}) {
				all = append(all, wanted{pod, c.Name, true})
			}
		}
	}
	for group := range slices.Chunk(all, logsAtOnce) {
		files := make([]logFile, len(group))
		var reads sync.WaitGroup
		for i, w := range group {
			reads.Go(func() {
				within, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				files[i] = readLog(within, client, w.pod, w.container, w.previous)
			})
		}
		reads.Wait()
		for _, f := range files {
			if f.why != "" {
				b.missing(f.name, f.why)
			}
			if f.why == "" || len(f.data) > 0 {
				b.add(f.name, "the log of the last hour", []byte(scrubbed(string(f.data))))
			}
		}
	}
}

func logName(pod *corev1.Pod, container string, previous bool) string {
	name := "logs/" + namespaced(pod) + "/" + container
	if previous {
		name += ".previous"
	}
	return name + ".log"
}

func readLog(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string,
	previous bool) logFile {
	f := logFile{name: logName(pod, container, previous)}
	stream, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container,
		Previous:     previous,
		SinceSeconds: ptr.To(int64(logSince.Seconds())), TailLines: ptr.To[int64](logLines), Timestamps: true}).Stream(ctx)
	if err != nil {
		f.why = fmt.Sprintf("cannot read the log: %v", err)
		return f
	}
	defer stream.Close()
	var data bytes.Buffer
	n, err := io.Copy(&data, io.LimitReader(stream, logBytes+1))
	f.data = data.Bytes()
	switch {
	case err != nil:
		f.why = fmt.Sprintf("the log is not complete: %v", err)
	case n > logBytes:
		f.data, f.why = f.data[:logBytes], fmt.Sprintf("the log is longer than %d MiB: the rest is left out", logBytes>>20)
	}
	return f
}
