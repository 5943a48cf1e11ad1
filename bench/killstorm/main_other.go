//go:build !linux

// Command killstorm runs on Linux only.
package main

func main() {}
