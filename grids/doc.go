// Package grids carries the grid of the demo, so that it runs from any directory, and the one that
// has every key, which is the help on grids. The other files of this folder are examples to copy.
//
// The step to use it: give [Demo] to a grid reader, and [Reference] to a person.
package grids
