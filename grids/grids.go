package grids

import _ "embed"

// Demo is demo.yaml.
//
//go:embed demo.yaml
var Demo []byte
