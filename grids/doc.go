// Package grids carries the grid of the demo, so that it runs from any directory. The other files of
// this folder are examples to copy.
//
// The step to use it: give [Demo] to a grid reader.
package grids
