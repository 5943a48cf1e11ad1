//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "peers: needs Linux (epoll, affinity, /proc)")
	os.Exit(1)
}
