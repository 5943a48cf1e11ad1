package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"
)

// Again says what part of a grid is to be run again, and how.
type Again struct {
	Name    string   // of the new grid
	Only    []string // keys of the configs that stay
	Loads   []Load   // that stay
	Repeats int
	Prompts string        // other prompts than the first time
	Window  time.Duration // exact length of each window; 0: as in the grid
	Bursts  []Burst       // loads that are added
}

// Burst is a load with the longest prompts all at once, on top of another load that keeps the KV pool busy.
type Burst struct {
	Over  Load // the load that goes on meanwhile
	Count int  // of the longest prompts in flight
}

// burstOutput is how many tokens a request of a burst answers with: few, so that the next long prompt comes soon.
const burstOutput = 16

// Workload is the name of the workload that holds the burst.
func (b Burst) Workload() string { return b.Over.Workload + "-burst" }

// Load is the burst as a load of its workload.
func (b Burst) Load(class string) Load {
	l := Load{Workload: b.Workload(), Pools: slices.Clone(b.Over.Pools)}
	l.Pools = append(l.Pools, Pool{Class: class, Concurrency: b.Count})
	return l
}

// Again makes the text of a grid that runs a part of this one again. All else stays as it is written, comments too.
func (g *Grid) Again(o Again) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Load(g.Source, &doc); err != nil {
		return nil, fmt.Errorf("grid %s: %w", g.Path, err)
	}
	top := root(&doc)
	if top == nil || top.Kind != yaml.MappingNode {
		return nil, errors.New("the grid is no mapping")
	}
	for _, key := range []string{"until", "budget"} {
		dropKey(top, key)
	}
	setKey(top, "name", textNode(o.Name))
	setKey(top, "repeats", plainNode(strconv.Itoa(max(1, o.Repeats))))
	setKey(top, "drift", plainNode("off"))
	only := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, key := range o.Only {
		only.Content = append(only.Content, textNode(key))
	}
	setKey(top, "only", only)
	if o.Prompts != "" {
		setKey(top, "prompt_set", textNode(o.Prompts))
	}
	loads := slices.Clone(o.Loads)
	works := valueOf(top, "workloads")
	for _, b := range o.Bursts {
		class, err := g.addBurst(works, b)
		if err != nil {
			return nil, err
		}
		loads = append(loads, b.Load(class))
	}
	setKey(top, "load", loadsNode(loads))
	keepWorkloads(works, loads)
	g.pointAtFiles(works)
	setMeasure(top, works, o.Window)
	return yaml.Dump(&doc, yaml.WithIndent(2))
}

// pointAtFiles names each file of prompts by where it was read: the new grid stands in another folder.
func (g *Grid) pointAtFiles(works *yaml.Node) {
	for _, w := range g.Workloads {
		classes := valueOf(valueOf(works, w.Name), "classes")
		for _, c := range w.Classes {
			if node := valueOf(classes, c.Name); node != nil && c.Prompts != nil {
				setKey(node, "prompts", textNode(c.Prompts.absolute()))
			}
		}
	}
}

// node is the law as a grid has it.
func (a *Arrivals) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	if a.Trace != nil {
		setKey(n, "trace", textNode(a.Trace.absolute()))
		return n
	}
	setKey(n, "law", plainNode(a.Law))
	if a.Shape > 0 {
		setKey(n, "shape", plainNode(number32(a.Shape)))
	}
	if a.Ramp > 0 {
		setKey(n, "ramp", plainNode(a.Ramp.String()))
	}
	if a.Steps > 0 {
		setKey(n, "steps", plainNode(strconv.Itoa(a.Steps)))
		setKey(n, "each", plainNode(a.Each.String()))
	}
	return n
}

// addBurst adds the workload of a burst: the classes of the other load, without service levels, and one with the longest prompts.
func (g *Grid) addBurst(works *yaml.Node, b Burst) (class string, err error) {
	w := g.workload(b.Over.Workload)
	longest := 0
	for _, c := range w.Classes {
		longest = max(longest, c.Input.Max)
	}
	of := valueOf(works, b.Over.Workload)
	if longest == 0 || of == nil {
		return "", fmt.Errorf("no workload is named %q", b.Over.Workload)
	}
	for class = "burst"; slices.ContainsFunc(w.Classes, func(c Class) bool { return c.Name == class }); {
		class += "2"
	}
	classes := copyNode(valueOf(of, "classes"))
	for i := 1; i < len(classes.Content); i += 2 {
		dropKey(classes.Content[i], "slo")
	}
	long := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	setKey(long, "input", plainNode(strconv.Itoa(longest)))
	setKey(long, "output", plainNode(strconv.Itoa(burstOutput)))
	setKey(classes, class, long)
	own := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	setKey(own, "classes", classes)
	setKey(works, b.Workload(), own)
	return class, nil
}

// keepWorkloads drops the workloads that no load names.
func keepWorkloads(works *yaml.Node, loads []Load) {
	for i := 0; i+1 < len(works.Content); {
		name := works.Content[i].Value
		if slices.ContainsFunc(loads, func(l Load) bool { return l.Workload == name }) {
			i += 2
			continue
		}
		works.Content = slices.Delete(works.Content, i, i+2)
	}
}

// setMeasure fixes the window's length, and drops the numbers of requests of classes that are gone.
func setMeasure(top, works *yaml.Node, window time.Duration) {
	measure := valueOf(top, "measure")
	if window > 0 {
		if measure == nil || measure.Kind != yaml.MappingNode {
			measure = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			setKey(top, "measure", measure)
		}
		setKey(measure, "window", plainNode(window.String()))
		return
	}
	requests := valueOf(valueOf(measure, "window"), "requests")
	if requests == nil || requests.Kind != yaml.MappingNode {
		return
	}
	known := map[string]bool{}
	for i := 1; i < len(works.Content); i += 2 {
		classes := valueOf(works.Content[i], "classes")
		for k := 0; classes != nil && k+1 < len(classes.Content); k += 2 {
			known[classes.Content[k].Value] = true
		}
	}
	for i := 0; i+1 < len(requests.Content); {
		if known[requests.Content[i].Value] {
			i += 2
			continue
		}
		requests.Content = slices.Delete(requests.Content, i, i+2)
	}
	if len(requests.Content) == 0 {
		dropKey(valueOf(measure, "window"), "requests")
	}
}

func loadsNode(loads []Load) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, l := range loads {
		level := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
		for _, p := range l.Pools {
			text := strconv.Itoa(p.Concurrency)
			if l.Open() {
				text = number32(p.Rate)
			}
			setKey(level, p.Class, plainNode(text))
		}
		item := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
		setKey(item, "workload", textNode(l.Workload))
		key := "concurrency"
		if l.Open() {
			key = "rate"
			setKey(item, "arrivals", l.Arrivals.node())
		}
		setKey(item, key, &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Content: []*yaml.Node{level}})
		list.Content = append(list.Content, item)
	}
	return list
}

// textNode is a text that stays one, whatever it looks like.
func textNode(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

func plainNode(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// valueOf is the value of a key in a mapping; nil where there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func setKey(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, plainNode(key), value)
}

func dropKey(n *yaml.Node, key string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

func copyNode(n *yaml.Node) *yaml.Node {
	if n == nil {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = copyNode(child)
	}
	return &c
}
