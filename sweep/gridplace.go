package sweep

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// Problem is a problem with a flag that the grid sets, at the place where it does; the file as a whole
// when it is not set there. The text is one sentence without a full stop.
func (g *Grid) Problem(flag, text, remedy string) Problem {
	p := Problem{File: g.Path, Text: text, Remedy: remedy}
	var doc yaml.Node
	if yaml.Unmarshal(g.Source, &doc) != nil { // read before, so that it is whole
		return p
	}
	n := flagKey(root(&doc), flag)
	if n == nil {
		return p
	}
	p.Line, p.Col = n.Line, max(n.Column, 1)
	if lines := strings.Split(string(g.Source), "\n"); p.Line <= len(lines) {
		p.Source = strings.TrimRight(lines[p.Line-1], "\r")
	}
	return p
}

// flagKey is the key of a flag: in server, as an axis, in a bundle of an axis, or in an included config.
func flagKey(grid *yaml.Node, flag string) *yaml.Node {
	if grid == nil {
		return nil
	}
	if key, _ := entry(child(grid, "server"), flag); key != nil {
		return key
	}
	axes := child(grid, "sweep")
	if key, _ := entry(axes, flag); key != nil {
		return key
	}
	if axes != nil && axes.Kind == yaml.MappingNode {
		for i := 1; i < len(axes.Content); i += 2 {
			bundles := axes.Content[i]
			for j := 1; bundles.Kind == yaml.MappingNode && j < len(bundles.Content); j += 2 {
				if key, _ := entry(bundles.Content[j], flag); key != nil {
					return key
				}
			}
		}
	}
	if include := child(grid, "include"); include != nil {
		for _, config := range include.Content {
			if key, _ := entry(config, flag); key != nil {
				return key
			}
		}
	}
	return nil
}

func child(n *yaml.Node, name string) *yaml.Node {
	_, value := entry(n, name)
	return value
}

func entry(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
