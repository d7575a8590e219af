// Command times reads the output of `go test -json`, and prints the slowest tests and the time of each package. It prints
// the output of failed tests, and exits with code 1 if there are any.
//
//	go test -json ./... | go run ./cmd/times
//
// The time for which a test waited to run in parallel does not count. The time of a test with subtests is that of the longest
// path through them, so the sum of all tests has no meaning.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	most := flag.Int("n", 30, "number of tests to print")
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
