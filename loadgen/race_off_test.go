//go:build !race

package loadgen

// slowed is how many times slower than usual tests of sheer amount run.
const slowed = 1
