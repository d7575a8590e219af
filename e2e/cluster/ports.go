package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// Servers listen below the ports that the kernel gives to clients (ip_local_port_range in ip(7), by
// default from 32768): when a killed server is started again, no client may have its port.
const (
	firstPort  = 20000
	blockPorts = 120
	// blockCount is the number of blocks that a process can lock. The ports above them are for
	// servers that outlive their process.
	blockCount = 99
)

// blocks are the blocks of this process: ports and loopback addresses that no other process of
// these tests on this machine uses.
type blocks struct {
	mu     sync.Mutex
	name   string // begins the names of the locks
	locked []locked
	next   int // port of the last block
}

// locked is a block with its lock, a socket in the abstract namespace. The kernel removes the
// socket with the process. Like the ports, it is of one network namespace; see unix(7).
type locked struct {
	number int
	lock   net.Listener
}

var ours = &blocks{name: "hostpath-provisioner-e2e-block"}

// FreePorts returns n different free ports of the loopback interface. No other process of these
// tests gets them while this one runs. Servers that outlive this process get detached ports, which
// are free now.
func FreePorts(n int, detached bool) ([]int, error) {
	if detached {
		return outliving(n)
	}
	ours.mu.Lock()
	defer ours.mu.Unlock()
	return ours.ports(n)
}

// Loopback returns the n-th address of this process. No other process of these tests gets it while
// this one runs, and no outgoing connection uses it.
func Loopback(n int) (string, error) {
	ours.mu.Lock()
	defer ours.mu.Unlock()
	return ours.loopback(n)
}

func (b *blocks) loopback(n int) (string, error) {
	if len(b.locked) == 0 {
		if err := b.another(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("127.%d.%d.%d", 100+b.locked[0].number, n/250, 1+n%250), nil
}

// ports returns free ports in ascending order within a block, each once. Another program may listen
// on a port of the block.
func (b *blocks) ports(n int) (ports []int, err error) {
	for len(ports) < n {
		if len(b.locked) == 0 || b.next == blockPorts {
			if err := b.another(); err != nil {
				return nil, err
			}
		}
		port := firstPort + b.locked[len(b.locked)-1].number*blockPorts + b.next
		b.next++
		if free(port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// another locks a block. Processes begin the search at different numbers, so that addresses are not
// used again at once.
func (b *blocks) another() error {
	var err error
	for i := range blockCount {
		number := (os.Getpid() + i) % blockCount
		lock, failed := net.Listen("unix", fmt.Sprintf("@%s-%d", b.name, number))
		if failed == nil {
			b.locked, b.next = append(b.locked, locked{number, lock}), 0
			return nil
		}
		err = failed
	}
	return fmt.Errorf("each of %d blocks of ports is used by a process of these tests: %w", blockCount, err)
}

func outliving(n int) (ports []int, err error) {
	const first = firstPort + blockCount*blockPorts
	for _, offset := range rand.Perm(blockPorts) {
		if len(ports) == n {
			return ports, nil
		}
		if free(first + offset) {
			ports = append(ports, first+offset)
		}
	}
	return nil, errors.New("no free ports from " + strconv.Itoa(first) + " on")
}

// free reports whether nothing listens on a port.
func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
