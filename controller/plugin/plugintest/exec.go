package plugintest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// Answer is how a kubelet answers a command.
type Answer struct {
	// Out and Err are what the command prints; with Code it ends.
	Out, Err string
	Code     int
	// Never is set for a node that accepts the request and does not answer.
	Never bool
	// Refused is set if the API server refuses the command, although the review allows it.
	Refused bool
	// Unreachable is why the API server does not reach the kubelet; "" if it does.
	Unreachable string
}

// Answer is what a pod prints for a command, by Prints and Pools.
func (c *Cluster) Answer(pod string, command []string) Answer {
	if a, has := c.Prints[pod+" "+command[1]]; has {
		return a
	}
	pools, has := c.Pools[strings.TrimPrefix(pod, "agent-")]
	switch {
	case !has:
		return Answer{Unreachable: "there is no kubelet"}
	case command[1] == "inspect":
		return JSON(pools...)
	case command[1] == "orphans":
		return JSON([]string{})
	}
	return Answer{Err: "unexpected command " + strings.Join(command, " "), Code: 2}
}

// JSON is an answer of JSON documents.
func JSON[T any](values ...T) Answer {
	var out bytes.Buffer
	for _, v := range values {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			panic(err) // of a value of a test
		}
		out.Write(append(data, '\n'))
	}
	return Answer{Out: out.String()}
}

// chunk is the size of the pieces in which a kubelet passes output on, in bytes.
const chunk = 32 << 10

// exec runs a command by v5.channel.k8s.io: each message begins with the number of its stream.
func (s *Server) exec(w http.ResponseWriter, r *http.Request, pod string) {
	run := s.Answer
	if s.Exec != nil {
		run = s.Exec
	}
	a := run(pod, r.URL.Query()["command"])
	switch {
	case a.Never:
		<-r.Context().Done()
		return
	case a.Refused:
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "you may not")
		return
	case a.Unreachable != "":
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, a.Unreachable)
		return
	}
	const write, ignore = wsstream.WriteChannel, wsstream.IgnoreChannel
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true,
		Channels: []wsstream.ChannelType{ignore, write, write, write, ignore}}})
	// Without a logger, because it logs that a client closes a connection.
	_, streams, err := conn.Open(w, r.WithContext(klog.NewContext(r.Context(), klog.Logger{})))
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.Close() }()
	status := metav1.Status{Status: metav1.StatusSuccess}
	if a.Code != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: "command terminated with non-zero exit code", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(a.Code)}}}}
	}
	end, err := json.Marshal(status)
	if err != nil {
		return
	}
	for _, text := range []struct {
		stream int
		data   []byte
	}{{remotecommand.StreamStdOut, []byte(a.Out)}, {remotecommand.StreamStdErr, []byte(a.Err)},
		{remotecommand.StreamErr, end}} {
		for data := text.data; len(data) > 0; {
			n := min(chunk, len(data))
			if _, err := streams[text.stream].Write(data[:n]); err != nil {
				return // a client that left
			}
			data = data[n:]
		}
	}
}
