package main

import (
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
)

// nan marks what was not measured.
var nan = math.NaN()

// sample is a set of measurements. Its methods return NaN if it is empty.
type sample []float64

// at returns the p-th percentile, by the nearest rank.
func (s sample) at(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(p/100*float64(len(sorted)))) - 1
	return sorted[max(0, min(rank, len(sorted)-1))]
}

// median returns the middle one, or the mean of the two in the middle.
func (s sample) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// by divides each value by its partner.
func (s sample) by(other sample) sample {
	out := make(sample, min(len(s), len(other)))
	for i := range out {
		out[i] = s[i] / other[i]
	}
	return out
}

func cpus() int { return runtime.NumCPU() }

// filesystemOf returns the type of the filesystem of the path, from mountinfo.
func filesystemOf(path string) string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "an unknown filesystem"
	}
	best, kind := "", "an unknown filesystem"
	for line := range strings.Lines(string(data)) {
		fields, rest, ok := strings.Cut(line, " - ")
		f := strings.Fields(fields)
		if !ok || len(f) < 5 {
			continue
		}
		point := strings.TrimSuffix(f[4], "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= len(best) {
			best, kind = point, strings.Fields(rest)[0]
		}
	}
	return kind
}
