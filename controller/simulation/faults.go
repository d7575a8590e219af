package simulation

import (
	"maps"
	"strings"
	"sync"
	"time"

	"kubevirt.io/hostpath-provisioner/controller/kube/sleep"
	"kubevirt.io/hostpath-provisioner/controller/simulation/apiserver"
)

// faults are what is wrong between processes and the API server. The server calls its methods from
// all goroutines.
type faults struct {
	living sync.Map // processes by their names at the API server

	mu      sync.Mutex               // guards the rest; never held while anything waits
	lag     map[string]time.Duration // of watches, by program and node: "agent/node-01"
	manager time.Duration            // of the controller-manager
	ahead   time.Duration            // of the API server's clock, negative if that is behind
	refused []refusal
	kill    *killPoint
	hooks   map[string]hook
}

// hook changes or refuses writes.
type hook struct {
	change func(*apiserver.Write) error
	lasts  bool
}

// refusal is an answer that the processes get for a while.
type refusal struct {
	who, verb, resource string // who is a prefix
	answer              apiserver.Fault
	until               time.Time
}

// killPoint is the write to the API server at which a process is killed.
type killPoint struct {
	who   *process
	nth   int  // counts down
	after bool // the write takes effect, and the process never knows
}

// program is the part of a client's name that its lives share: "agent/node-01" of "agent/node-01#3".
func program(who string) string { name, _, _ := strings.Cut(who, "#"); return name }

func (w *World) gate(who string) error {
	if who == "god" {
		return nil
	}
	if p, ok := w.faults.living.Load(who); ok && !p.(*process).killed.Load() {
		return nil
	}
	return errKilled
}

func (w *World) late(who string) time.Duration {
	f := &w.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(who, "operator/") {
		return f.lag["operator"]
	}
	return f.lag[program(who)]
}

func (w *World) fault(r apiserver.Request) apiserver.Fault {
	if r.Who == "god" {
		return apiserver.Fault{}
	}
	if r.Resource == "nodes" && (r.Verb == "list" || r.Verb == "watch") && !strings.HasPrefix(r.Who, "operator") && !strings.HasPrefix(r.Who, "disks/") {
		return apiserver.Fault{Code: 403} // the roles of agents have get alone, those of disks watch their Node
	}
	f := &w.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kill; k != nil && k.who.who == r.Who && writes(r.Verb) && r.Resource != "events" {
		if k.nth--; k.nth <= 0 {
			f.kill = nil
			k.who.killed.Store(true)
			sleep.Wake(w.died)
			return apiserver.Fault{Code: 504, Late: k.after}
		}
	}
	now := time.Now()
	for _, x := range f.refused {
		if now.Before(x.until) && strings.HasPrefix(r.Who, x.who) && (x.verb == "" || x.verb == r.Verb) &&
			(x.resource == "" || x.resource == r.Resource) {
			return x.answer
		}
	}
	return apiserver.Fault{}
}

func writes(verb string) bool { return verb != "get" && verb != "list" && verb != "watch" }

func (w *World) admit(write *apiserver.Write) error {
	if i := w.inst.Load(); i != nil {
		if err := i.review(write); err != nil {
			return err
		}
	}
	f := &w.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hook := range f.hooks {
		if err := hook.change(write); err != nil {
			return err
		}
	}
	return nil
}

// end ends all faults.
func (f *faults) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lag, f.manager, f.ahead, f.refused, f.kill = map[string]time.Duration{}, 0, 0, nil, nil
	maps.DeleteFunc(f.hooks, func(_ string, h hook) bool { return !h.lasts })
}

// hooked reports whether webhooks change or refuse writes.
func (f *faults) hooked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.hooks) > 0
}

// clock is that of the API server.
func (f *faults) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Add(f.ahead)
}

// managerLag is how late each step of the controller-manager is.
func (f *faults) managerLag() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.manager
}
