//go:build !linux

// Command longnight runs on Linux only.
package main

func main() {}
