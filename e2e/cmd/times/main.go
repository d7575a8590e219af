// Command times reads what `go test -json` writes, and prints the slowest tests and how long each package took. Of tests
// that failed it prints the output, and ends with 1.
//
//	go test -json ./... | go run ./cmd/times
//
// What a test waited for a free place among those that run in parallel does not count. A test that has subtests is as long
// as the longest way through them, so the sum of all tests says nothing.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	most := flag.Int("n", 30, "how many tests to print")
	flag.Parse()
	t, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	t.print(os.Stdout, *most)
	if t.failed {
		os.Exit(1)
	}
}
