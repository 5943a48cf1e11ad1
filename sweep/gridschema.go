package sweep

import (
	_ "embed"
	"slices"
)

//go:embed grid.schema.json
var gridSchema []byte

// GridSchema is the JSON Schema of a grid file. It knows the form of each key; what only the grid as a
// whole can show is the reader's to say.
func GridSchema() []byte { return slices.Clone(gridSchema) }
