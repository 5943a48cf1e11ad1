package simulate

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

//go:embed data
var dataFS embed.FS

// release is one version of SGLang, as data: what it prints and answers where versions differ.
type release struct {
	version string
	usage   string // argparse's text for a wrong command line
	args    object // server args with their defaults

	argsAsDict       bool   // server_args= prints a dict, not ServerArgs(…)
	parallelInit     bool   // "Init parallel begin." where older releases say "Init torch distributed begin."
	unifiedTree      string // line about the tree before "Tree cache initialized"
	treeField        string // of "Tree cache initialized"
	radixImpl        string
	hiradixImpl      string
	streamingWrapped bool
	termCode         int // exit code after SIGTERM while serving
	intCode          int // after SIGINT while serving
	bindCode         int // when the port is taken
	zeroCached       bool
	getLoad          bool // /get_load still answers
	decodeOnly       bool // realtime_tokens_total{mode="decode"} leaves out the token that a prefill gives
}

func releases() []release {
	return []release{
		{
			version: "0.5.17", treeField: "hierarchical", radixImpl: "RadixCache", hiradixImpl: "HiRadixCache", streamingWrapped: true,
			termCode: -9, intCode: 0, bindCode: 1, getLoad: true,
		},
		{
			version: "0.5.23", argsAsDict: true, parallelInit: true,
			unifiedTree: "Init Unified Radix Cache. Components: (<ComponentType.FULL: 0>,). Tree Core: RustUnifiedTreeCore",
			treeField:   "hicache_attached", radixImpl: "UnifiedRadixCache", hiradixImpl: "UnifiedRadixCache",
			termCode: 0, intCode: -2, bindCode: 3, zeroCached: true, decodeOnly: true,
		},
	}
}

func lookupRelease(version string) (release, error) {
	var known []string
	for _, r := range releases() {
		known = append(known, r.version)
		if r.version != version {
			continue
		}
		usage, err := dataFS.ReadFile("data/usage-" + version + ".txt")
		if err != nil {
			return release{}, err
		}
		args, err := dataFS.ReadFile("data/server_args-" + version + ".json")
		if err != nil {
			return release{}, err
		}
		r.usage = string(usage)
		r.args, err = parseObject(args)
		return r, err
	}
	return release{}, fmt.Errorf("no SGLang version %q: there are %s", version, strings.Join(known, ", "))
}

// field is one member of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// object is a JSON object that keeps its order.
type object []field

func parseObject(data []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var o object
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o = append(o, field{name.(string), value})
	}
	return o, nil
}

func (o object) get(name string) (json.RawMessage, bool) {
	for _, f := range o {
		if f.name == name {
			return f.value, true
		}
	}
	return nil, false
}

// set replaces a member, or appends it. The value is marshalled; strings need no quotes.
func (o *object) set(name string, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("simulate: %s: %v", name, err)) // all values are our own
	}
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].value = raw
			return
		}
	}
	*o = append(*o, field{name, raw})
}

func (o object) clone() object { return append(object(nil), o...) }

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(f.name))
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// repr is the object as the "server_args=" line shows it.
func (o object) repr(dict bool) string {
	var b strings.Builder
	if dict {
		b.WriteByte('{')
	} else {
		b.WriteString("ServerArgs(")
	}
	for i, f := range o {
		if i > 0 {
			b.WriteString(", ")
		}
		if dict {
			b.WriteString(pyString(f.name) + ": " + pyJSON(f.value))
		} else {
			b.WriteString(f.name + "=" + pyJSON(f.value))
		}
	}
	if dict {
		b.WriteByte('}')
	} else {
		b.WriteByte(')')
	}
	return b.String()
}

// pyJSON is a JSON value as Python's repr shows it.
func pyJSON(raw json.RawMessage) string {
	switch text := strings.TrimSpace(string(raw)); {
	case text == "null":
		return "None"
	case text == "true":
		return "True"
	case text == "false":
		return "False"
	case strings.HasPrefix(text, `"`):
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return pyString(s)
		}
		return text
	case strings.HasPrefix(text, "{"):
		o, err := parseObject(raw)
		if err != nil {
			return text
		}
		parts := make([]string, len(o))
		for i, f := range o {
			parts[i] = pyString(f.name) + ": " + pyJSON(f.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case strings.HasPrefix(text, "["):
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return text
		}
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = pyJSON(v)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return text
	}
}

// pyString is a string as Python's repr shows it.
func pyString(s string) string {
	quote := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = `"`
	}
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	if quote == "'" {
		s = strings.ReplaceAll(s, "'", `\'`)
	}
	return quote + s + quote
}

// pyFloat is a float as Python prints it: always with a point or an exponent.
func pyFloat(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pyInts is a list of whole numbers as Python prints it.
func pyInts(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
