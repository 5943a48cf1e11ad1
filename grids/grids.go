package grids

import _ "embed"

// Demo is demo.yaml.
//
//go:embed demo.yaml
var Demo []byte

// Reference is reference.yaml: every key of a grid, each with what it means.
//
//go:embed reference.yaml
var Reference []byte
