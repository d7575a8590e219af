// Package proof decides which test runs where, runs tests, and records what was run.
//
// There are two tiers. Tier 1 is `make test`: a list of steps that takes minutes and proves the
// main promises on real parts. Tier 2 is `make test-full`: shards of at most twenty minutes that,
// together, run everything. tiers.txt assigns each test function of the tree to steps and shards,
// and proven.txt records at which commit each shard last passed.
//
//	tests.go   finds the test functions of the tree
//	tiers.go   reads tiers.txt and assigns tests
//	gotest.go  runs go test and counts results
//	ahead.go   what is installed and built before the steps that need it
//	steps.go   the steps of tier 1 and the shards of tier 2
//	proven.go  reads and writes proven.txt, and says which shards are out of date
package proof
