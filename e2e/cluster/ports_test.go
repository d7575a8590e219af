package cluster

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// someBlocks returns what a process has. The test ends it.
func someBlocks(t *testing.T) *blocks {
	b := &blocks{name: fmt.Sprintf("hostpath-provisioner-e2e-%s-%d", t.Name(), os.Getpid())}
	t.Cleanup(func() { end(b) })
	return b
}

func end(b *blocks) {
	for _, one := range b.locked {
		_ = one.lock.Close()
	}
	b.locked = nil
}

// Two processes share neither ports nor addresses, and no port comes twice, not even after the
// server that had it has ended.
func TestFreePorts(t *testing.T) {
	all, addresses := map[int]bool{}, map[string]bool{}
	for range 2 {
		b := someBlocks(t)
		for range 3 {
			ports, err := b.ports(blockPorts / 2)
			if err != nil || len(ports) != blockPorts/2 {
				t.Fatal(ports, err)
			}
			for _, port := range ports {
				if all[port] {
					t.Errorf("port %d comes twice", port)
				}
				all[port] = true
			}
		}
		for n := range 600 {
			address, err := b.loopback(n)
			if err != nil || !net.ParseIP(address).IsLoopback() || addresses[address] {
				t.Fatal(n, address, addresses[address], err)
			}
			addresses[address] = true
		}
	}
}

// A port on which another program listens is left out.
func TestFreePortsOfOthers(t *testing.T) {
	b := someBlocks(t)
	one, err := b.ports(1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", one[0]+1))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next, err := b.ports(1)
	if err != nil || next[0] != one[0]+2 {
		t.Errorf("%v after %v, %v; want the port after the one that is used", next, one, err)
	}
}

// Where each block is used, that is an error. A process that ends leaves its blocks to others.
func TestFreePortsUsedUp(t *testing.T) {
	many := someBlocks(t)
	for range blockCount {
		if err := many.another(); err != nil {
			t.Fatal(err)
		}
	}
	late := &blocks{name: many.name}
	if ports, err := late.ports(1); err == nil {
		t.Errorf("ports %v, want an error", ports)
	}
	if address, err := late.loopback(1); err == nil {
		t.Errorf("address %s, want an error", address)
	}
	end(many)
	if _, err := late.ports(1); err != nil {
		t.Error(err)
	}
	end(late)
}

// What outlives a process has ports that no block has.
func TestFreePortsDetached(t *testing.T) {
	ports, err := FreePorts(3, true)
	if err != nil || len(ports) != 3 {
		t.Fatal(ports, err)
	}
	for _, port := range ports {
		if port < firstPort+blockCount*blockPorts || port >= 32768 {
			t.Errorf("port %d is in a block, or among those of clients", port)
		}
	}
}
