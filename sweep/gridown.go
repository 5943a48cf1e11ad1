package sweep

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// FileFacts are what a grid's reader must know of a file that the grid names.
type FileFacts struct {
	Answered bool // each prompt brings the length of its answer
	Messages bool // some prompts are messages, which only the chat route takes
	IDs      bool // some prompts are token ids, which the chat route does not take
	Requests int  // of a trace
}

// apis are the routes of requests, and what each takes.
var apis = []string{"completions", "chat", "generate"}

// ownFields are the fields of a request that sweep sets itself.
var ownFields = []string{"prompt", "messages", "input_ids", "text", "max_tokens", "max_completion_tokens", "n_predict", "stream", "model"}

// readAPI reads by which route a workload's requests go, and what each of them carries.
func (r *reading) readAPI(parts map[string]field, w *Workload) {
	if f, ok := parts["api"]; ok {
		switch s, ok := r.text(f.value, "api"); {
		case !ok:
		case !slices.Contains(apis, s):
			r.problem(f.value, didYouMean(s, apis), "unknown api %q", s)
		case s == "generate" && r.grid.Engine != "" && r.grid.Engine != "sglang":
			r.problem(f.value, "write completions or chat", "generate is SGLang's own route, and the engine is %s", r.grid.Engine)
		default:
			w.API = s
		}
	}
	f, ok := parts["body"]
	if !ok {
		return
	}
	for _, field := range r.fields(f.value, "body", "{top_p: 0.9}") {
		switch {
		case slices.Contains(ownFields, field.name):
			r.problem(field.key, "take it out", "field %q of a request is sweep's own", field.name)
			continue
		case SecretName(strings.ToUpper(field.name)) && field.value.Kind == yaml.ScalarNode:
			r.problem(field.key, "take it out", "%s looks like a secret in plain text", field.name)
			continue
		}
		v, err := jsonValue(field.value)
		if err != nil {
			r.problem(field.value, "write it as JSON has it", "%s cannot be a field of a request: %v", field.name, err)
			continue
		}
		if w.Body == nil {
			w.Body = map[string]any{}
		}
		w.Body[field.name] = v
	}
}

// jsonValue is a YAML value as JSON has it.
func jsonValue(n *yaml.Node) (any, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(data, &v)
	return v, err
}

// readPrompts reads the file that brings a class's prompts; answered says that each of them brings the length of its answer.
func (r *reading) readPrompts(class field, parts map[string]field, c *Class, api string) (answered bool) {
	f, ok := parts["prompts"]
	if !ok {
		return false
	}
	for _, name := range []string{"input", "shared_prefix"} {
		if p, ok := parts[name]; ok {
			r.problem(p.key, "take it out", "class %q has prompts of its own: they have the length that they have, and share what they share", class.name)
		}
	}
	file, facts, ok := r.namedFile(f.value, "prompts")
	if !ok {
		return true // what else is missing cannot be said
	}
	c.Prompts = file
	switch {
	case facts.Messages && api != "chat":
		r.problem(f.value, "write api: chat in the workload", "%s holds messages, which only the chat route takes", file.Name)
	case facts.IDs && api == "chat":
		r.problem(f.value, "write api: completions in the workload", "%s holds token ids, which the chat route does not take", file.Name)
	}
	return facts.Answered
}

// namedFile reads a path and looks into the file: "~" is the user's home, and a relative path is one from the grid's own folder.
func (r *reading) namedFile(n *yaml.Node, what string) (*File, FileFacts, bool) {
	name, ok := r.text(n, what)
	if !ok {
		return nil, FileFacts{}, false
	}
	path, kept := r.Kept[name]
	if !kept {
		if path, ok = r.path(n, what); !ok {
			return nil, FileFacts{}, false
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(r.grid.Path), path)
		}
	}
	sum, err := hashFile(path)
	if err != nil {
		r.problem(n, "name a file that is there; a relative path begins at the grid's folder", "%s cannot be read: %v", what, plainError(err))
		return nil, FileFacts{}, false
	}
	var facts FileFacts
	if r.LookInto != nil {
		if facts, err = r.LookInto(what, path); err != nil {
			r.problem(n, "see sweep help grid for the forms that are known", "%s: %v", name, err)
			return nil, FileFacts{}, false
		}
	}
	return &File{Name: name, SHA256: sum, path: path}, facts, true
}

// readOutput reads how long answers are: as many tokens as are forced, or natural, {natural: 600}, up to so many.
func (r *reading) readOutput(n *yaml.Node, c *Class, answered bool) {
	switch {
	case n.Kind == yaml.MappingNode:
		parts := r.section(n, "output", "{natural: 600}", "natural")
		if p, ok := parts["natural"]; ok {
			c.Natural = true
			c.Output, _ = r.length(p.value, "natural")
		} else {
			r.problem(n, "write {natural: 600}", "output says neither a length nor natural")
		}
	case n.Kind == yaml.ScalarNode && n.Value == "natural":
		c.Natural = true
		if !answered {
			r.problem(n, "write {natural: 600}, the most tokens that an answer may have", "output is natural, and nothing bounds it")
		}
	default:
		c.Output, _ = r.length(n, "output")
	}
}

// session reads conversations.
func (r *reading) session(n *yaml.Node) *Session {
	const example = "{turns: 2..5, input: 50..200, think: 3s}"
	s := &Session{}
	parts := r.section(n, "session", example, "turns", "input", "think")
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for _, part := range []struct {
		name string
		to   *Range
	}{{"turns", &s.Turns}, {"input", &s.Input}} {
		if f, ok := parts[part.name]; ok {
			*part.to, _ = r.length(f.value, part.name)
		} else {
			r.problem(n, "write it as in "+example, "session has no %s", part.name)
		}
	}
	if f, ok := parts["think"]; ok {
		s.Think, _ = r.duration(f.value, "think", 0)
	}
	return s
}

// plainError is an error without the path that a problem names already.
func plainError(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return text
}
