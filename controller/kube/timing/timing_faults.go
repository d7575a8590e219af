//go:build faults

package timing

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// divisor is the value of HPP_DIVIDE_TIMES, 1 if it is not set.
var divisor = divisorOf(os.Getenv("HPP_DIVIDE_TIMES"))

func divisorOf(value string) time.Duration {
	if value == "" {
		return 1
	}
	n, err := strconv.ParseInt(value, 10, 16)
	if err != nil || n < 1 {
		fmt.Fprintf(os.Stderr, "HPP_DIVIDE_TIMES is %q: set a number of at least 1\n", value)
		os.Exit(2)
	}
	return time.Duration(n)
}

// Scaled returns d divided by HPP_DIVIDE_TIMES.
func Scaled(d time.Duration) time.Duration { return d / divisor }
