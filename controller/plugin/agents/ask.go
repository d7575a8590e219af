// Package agents runs commands of the agents in their pods, with the rights of the user.
//
//	exec.go   runs one command in one pod
//	ask.go    runs a command in many pods at once
//	pools.go  the pools of the nodes
//	lists.go  their orphans and raw disks
//	plans.go  what brings their volumes back
package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// program is the agent's program in its image, which has no shell.
const program = "/hostpath-provisioner"

// atOnce is how many pods are asked at the same time. Each takes a connection through the API
// server to a kubelet. A pod that has not answered after slow does not count any more: many dead
// nodes must not make the others wait.
const (
	atOnce = 64
	slow   = time.Second
)

// Asker runs commands in the pods of agents.
type Asker struct {
	Exec Exec
	// Timeout bounds the wait for each agent: a node that does not answer costs no more.
	Timeout time.Duration
	// Denied says of namespaces why the user may run no commands in their pods.
	Denied map[string]string
	// Progress is called after each answer; nil for none. Calls may come at the same time.
	Progress func(done, all int)
}

// Answer is what the command of one agent printed.
type Answer struct {
	Agent cluster.Agent
	Out   []byte
	// Problem says why Out is missing or not complete; "" if it is complete.
	Problem string
}

// Ask runs a command of the agent's program in the pod of each agent, and returns the answers in
// the order of the agents. It does not ask an agent whose pod cannot answer.
func (a Asker) Ask(ctx context.Context, of []cluster.Agent, args ...string) []Answer {
	answers := make([]Answer, len(of))
	var done atomic.Int64
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, agent := range of {
		all.Go(func() {
			slots <- struct{}{}
			release := sync.OnceFunc(func() { <-slots })
			defer release()
			defer time.AfterFunc(slow, release).Stop()
			answers[i] = a.ask(ctx, agent, args)
			if n := done.Add(1); a.Progress != nil {
				a.Progress(int(n), len(of))
			}
		})
	}
	all.Wait()
	return answers
}

func (a Asker) ask(ctx context.Context, agent cluster.Agent, args []string) Answer {
	answer := Answer{Agent: agent}
	if agent.Unmarked != "" {
		answer.Problem = fmt.Sprintf("pod %s is %s", agent.Pod, agent.Unmarked)
		return answer
	}
	if agent.Container == "" {
		answer.Problem = fmt.Sprintf("pod %s has no container of the agent", agent.Pod)
		return answer
	}
	if why := a.Denied[agent.Namespace]; why != "" {
		answer.Problem = why
		return answer
	}
	within, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	out, err := a.Exec(within, agent.Namespace, agent.Pod, agent.Container, append([]string{program}, args...)...)
	switch answer.Out = out; {
	case err != nil && ctx.Err() == nil && timedOut(within, err):
		answer.Problem = fmt.Sprintf("no answer within %s (--timeout)", a.Timeout)
	case err != nil:
		answer.Problem = err.Error()
	}
	return answer
}

// timedOut reports whether a call failed because its time was over. The deadline of a connection
// is that of the context, and may pass first.
func timedOut(within context.Context, err error) bool {
	return errors.Is(within.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
