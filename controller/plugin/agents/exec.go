package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream" // whose errors client-go returns, not apimachinery's
)

// longest is the largest output of a command that is read, in bytes: the reports of some 100,000
// volumes.
const longest = 64 << 20

// Exec runs a command in a container and returns what it printed. An error of the command itself
// has what it printed on stderr.
type Exec func(ctx context.Context, namespace, pod, container string, command ...string) ([]byte, error)

// NewExec returns an Exec by the pods' subresource exec. It uses WebSockets, and SPDY where the API
// server or a proxy refuses them.
func NewExec(config *rest.Config, client kubernetes.Interface) Exec {
	return func(ctx context.Context, namespace, pod, container string, command ...string) ([]byte, error) {
		request := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true},
				scheme.ParameterCodec)
		sockets, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, request.URL().String())
		if err != nil {
			return nil, err
		}
		spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, request.URL())
		if err != nil {
			return nil, err
		}
		executor, err := remotecommand.NewFallbackExecutor(sockets, spdy, refused)
		if err != nil {
			return nil, err
		}
		out, printed := &bounded{left: longest}, &bounded{left: 64 << 10}
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: printed})
		if out.over { // the executor drops the error of a writer
			return nil, fmt.Errorf("the output is longer than %d MiB", longest>>20)
		}
		if text := oneLine(printed.String()); err != nil && text != "" {
			err = errors.New(text)
		}
		return out.Bytes(), err
	}
}

// oneLine joins the lines of errors, such as one of each pool: tables have one line for an agent.
func oneLine(printed string) string {
	return strings.Join(strings.FieldsFunc(strings.TrimSpace(printed), func(r rune) bool { return r == '\n' }), "; ")
}

// unreachable is in the API server's answer if it does not reach the kubelet of the pod.
const unreachable = "error dialing backend"

// refused reports whether the API server or a proxy refused a WebSocket. A kubelet that cannot be
// reached is not reached by SPDY either.
func refused(err error) bool {
	return httpstream.IsUpgradeFailure(err) && !strings.Contains(err.Error(), unreachable) ||
		httpstream.IsHTTPSProxyError(err)
}

// bounded is a buffer that fails once more than left bytes are written.
type bounded struct {
	bytes.Buffer
	left int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.over = true
		return 0, io.ErrShortWrite
	}
	b.left -= len(p)
	return b.Buffer.Write(p)
}
