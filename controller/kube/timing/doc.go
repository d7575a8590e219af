// Package timing shortens the times after which the product tries, checks or records again, in
// programs for tests only: those that are built with the tag faults and started with
// HPP_DIVIDE_TIMES. Tests that wait for such a time take a fraction of it. In every other program
// the times are those of the source. Tier 1 divides by five; tier 2 runs released programs.
//
// It is for pauses. A time that bounds how long something else may take, such as a call or a disk,
// stays as it is: on a busy machine a fraction of it would be too short.
package timing
