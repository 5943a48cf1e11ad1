package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Param is one named value, kept as the text that the grid has for it: 0.80 stays 0.80.
type Param struct {
	Name  string
	Value string
}

// Params are parameters in the order of the grid. As JSON they are one object whose keys keep that order.
type Params []Param

// Get returns the value of the named parameter and whether there is one.
func (p Params) Get(name string) (string, bool) {
	i := slices.IndexFunc(p, func(q Param) bool { return q.Name == name })
	if i < 0 {
		return "", false
	}
	return p[i].Value, true
}

// String gives the parameters as "a=1,b=2".
func (p Params) String() string {
	var b strings.Builder
	for i, q := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(q.Name + "=" + q.Value)
	}
	return b.String()
}

// MarshalJSON writes an object with the keys in order.
func (p Params) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, q := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(q.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(q.Value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object of strings, keeping the order of its keys.
func (p *Params) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("parameters: want an object, have %.20s", data)
	}
	*p = nil
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return fmt.Errorf("parameters: %w", err)
		}
		var value string
		if err := dec.Decode(&value); err != nil {
			return fmt.Errorf("parameters: %v: %w", name, err)
		}
		*p = append(*p, Param{name.(string), value})
	}
	return nil
}

// A Setting is one flag of a server with the engine's own name, without leading dashes. Values are
// the literal texts of the grid; most flags have one, a list flag several. The words true, false
// and off mean what an engine's argv builder makes of them: a bare flag, no flag, no flag.
type Setting struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Value returns the setting's only value, or its values joined by spaces.
func (s Setting) Value() string { return strings.Join(s.Values, " ") }

// SettingValue returns the value of the last setting with this name: a later one overrides an earlier one.
func SettingValue(settings []Setting, name string) (string, bool) {
	for _, s := range slices.Backward(settings) {
		if s.Name == name {
			return s.Value(), true
		}
	}
	return "", false
}
