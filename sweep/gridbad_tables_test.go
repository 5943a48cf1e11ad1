package sweep

import "strings"

// The tables of TestBadGrids: each grid is spoiled in one way, and every problem is listed whole.

var badYAML = []badGrid{
	{name: "empty", whole: "# nothing\n", want: []string{`:1:1: the file is empty (it needs at least engine, model, workloads and load; 'sweep help grid' prints one)`}},
	{name: "only a mark", whole: "---\n", want: []string{`:1:1: the file is empty (it needs at least engine, model, workloads and load; 'sweep help grid' prints one)`}},
	{name: "not a mapping", whole: "- a\n", want: []string{`:1:1: a grid is a mapping, not a list (write engine, model, workloads and load; 'sweep help grid' prints one)`}},
	{name: "open list", add: "sweep: {a: [1, 2}\n", want: []string{`:5:17: not valid YAML: did not find expected ',' or ']' (while parsing a flow sequence that begins in line 5)`}},
	{name: "tab", add: "sweep:\n\ta: [1]\n", want: []string{`:6:1: not valid YAML: found character that cannot start any token (indent with spaces, not with tabs)`}},
	{name: "colon twice", add: "repeats: 2: 3\n", want: []string{`:5:11: not valid YAML: mapping values are not allowed in this context (quote text that holds a colon and a space)`}},
	{name: "control character", add: "workdir: /a\x01\n", want: []string{`:5:12: not valid YAML: control characters are not allowed (value: 1) (take the character out)`}},
	{name: "not UTF-8", add: "workdir: /caf\xe9\n", want: []string{`:5:14: the file is not UTF-8: byte 0xe9 (save it as UTF-8)`}},
	{name: "two documents", add: "---\nname: b\n", want: []string{`:5:1: a second document begins (put each grid into a file of its own)`}},
	{name: "anchor and alias", add: "server: &s {tp-size: 8}\nsweep: {x: [1, *s]}\n", want: []string{
		`:5:9: anchor &s: a grid has no anchors (write the value out)`,
		`:6:16: alias *s: a grid has no aliases (write the value out)`,
	}},
	{name: "merge key", add: "server: {<<: {tp-size: 8}}\n", want: []string{`:5:10: merge key "<<": a grid has no merge keys (write the value out)`}},
	{name: "tag", add: "server: {tp-size: !!str 8}\n", want: []string{`:5:19: tag !!str: a grid has no tags (quote the value if it should be text)`}},
	{name: "too large", add: strings.Repeat("# filler\n", 120_000), want: []string{`: the file is larger than 1024 KiB (a grid is a short file)`}},
	{name: "unknown key", add: "sever: {tp-size: 8}\n", want: []string{`:5:1: unknown key "sever" (did you mean "server"?)`}},
	{name: "unknown key, nothing near", add: "qqqqqqqq: 1\n", want: []string{`:5:1: unknown key "qqqqqqqq" (known are ` + strings.Join(gridKeys, ", ") + `)`}},
	{name: "key twice", add: "server: {tp-size: 8, dp-size: 1, tp-size: 4}\nmodel: /n\n", want: []string{
		`:5:34: "tp-size" is given twice in server, first in line 5 (keep one of the two)`,
		`:6:1: "model" is given twice in a grid, first in line 2 (keep one of the two)`,
	}},
	{name: "list as key", add: "server: {[a]: 8}\n", want: []string{`:5:10: a list is no key of server (write a name)`}},
	{name: "missing keys", whole: "name: a\n", want: []string{
		`:1:1: key "engine" is missing (add engine: sglang)`,
		`:1:1: key "model" is missing (add model: a path or a hub id)`,
		`:1:1: key "workloads" is missing (add workloads: {chat: {classes: {short: {input: 800, output: 200}}}})`,
		`:1:1: key "load" is missing (add load: [{workload: chat, concurrency: [16, 64]}])`,
	}},
	{name: "wrong kinds", add: "server: [tp-size, 8]\nsweep: 3\nexclude: {a: 1}\nmeasure: 2m\nhosts: this\n", want: []string{
		`:5:9: server is a mapping, not a list (write {flag: value})`,
		`:6:8: sweep is a mapping, not the number 3 (write {mem-fraction-static: [0.85, 0.88]})`,
		`:7:10: exclude is a list, not a mapping (write [{axis: value}])`,
		`:8:10: measure is a mapping, not "2m" (write {warmup: first-cohort, window: {min: 2m}})`,
		`:9:8: hosts is a list, not "this" (write [{gpus: all}])`,
	}},
}

var badNames = []badGrid{
	{name: "name", add: "name: a/b\n", want: []string{`:5:7: name "a/b" is not safe as a folder's name: only letters, digits and . _ + - are (rename it)`}},
	{name: "name of dots", add: "name: ..\n", want: []string{`:5:7: name ".." is not safe as a folder's name: only letters, digits and . _ + - are (rename it)`}},
	{name: "long name", add: "name: " + strings.Repeat("a", 70) + "\n", want: []string{`:5:7: name is 70 characters long, more than the 64 that a folder's name can hold (rename it)`}},
	{name: "empty value", old: "/m", new: "", want: []string{`:2:7: model is empty (write a value, or leave the key out)`}},
	{name: "unknown engine", old: "sglang", new: "sglnag", want: []string{`:1:9: unknown engine "sglnag" (did you mean "sglang"?)`}},
	{name: "home of another", old: "/m", new: "~bob/m", want: []string{`:2:8: model is "~bob/m", and only ~ and ~/… are known (write the folder in full)`}},
	{name: "command as a line", add: "command: python -m sglang.launch_server\n", want: []string{`:5:10: command is a line of text, and no shell takes it apart (write a list of words: [python, -m, sglang.launch_server])`}},
	{name: "empty command", add: "command: []\n", want: []string{`:5:10: command is empty (write the words, or leave the key out)`}},
	{name: "command with NUL", add: "command: [a, \"b\\0c\"]\n", want: []string{`:5:14: a word of the command holds a NUL character (take it out)`}},
	{name: "command with a line break", add: "command: [a, \"b\\nc\"]\n", want: []string{`:5:14: a word of the command holds a line break (write it in one line)`}},
	{name: "workdir", add: "workdir: here\n", want: []string{`:5:10: workdir "here" is no absolute folder (begin it with / or ~/)`}},
	{name: "secrets", add: "env: {HF_TOKEN: hf_abc, MY_API_KEY: x, TOKENIZERS_PARALLELISM: false, B-C: 1}\n", want: []string{
		`:5:17: HF_TOKEN looks like a secret in plain text (write "${env:HF_TOKEN}")`,
		`:5:37: MY_API_KEY looks like a secret in plain text (write "${env:MY_API_KEY}")`,
		`:5:71: "B-C" is no name of an environment variable (use letters, digits and _)`,
	}},
	{name: "references", add: "env: {A: \"${HOME}/x\", B: \"${env:}\", C: \"a${env:OK}b\", D: [1]}\n", want: []string{
		`:5:10: A holds a ${ that begins no reference (write ${env:NAME})`,
		`:5:26: B holds a ${ that begins no reference (write ${env:NAME})`,
		`:5:58: D is one value, not a list (write one plain value)`,
	}},
}

var badFlags = []badGrid{
	{name: "owned", add: "server: {port: 30000}\nsweep: {served_model_name: [a, b]}\n", want: []string{
		`:5:10: flag "port" belongs to sweep: each launch takes a free one (take it out)`,
		`:6:9: flag "served_model_name" belongs to sweep: each launch has its own (take it out)`,
	}},
	{name: "dashes", add: "server: {--tp-size: 8}\n", want: []string{`:5:10: flag "--tp-size" begins with a dash (write tp-size)`}},
	{name: "no flag", add: "server: {tp size: 8}\n", want: []string{`:5:10: "tp size" is no name of a flag (write the flag's name as the server's help has it, without dashes before it)`}},
	{name: "leading zero", add: "server: {tp-size: 08}\nsweep: {x: [010, -01, \"010\", 0.5]}\n", want: []string{
		`:5:19: the value of "tp-size" is 08, and a number with a leading zero is octal to some readers (write 8, or quote it as text)`,
		`:6:13: a value of axis "x" is 010, and a number with a leading zero is octal to some readers (write 10, or quote it as text)`,
		`:6:18: a value of axis "x" is -01, and a number with a leading zero is octal to some readers (write -1, or quote it as text)`,
	}},
	{name: "spelling of true", add: "server: {enable-metrics: True}\n", want: []string{`:5:26: the value of "enable-metrics" is spelled True (write true, or quote it if the server wants this very text)`}},
	{name: "flag as value", add: "server: {tp-size: [8, --port]}\n", want: []string{`:5:23: the value of "tp-size" is "--port", which a server takes for a flag (give each flag a key of its own)`}},
	{name: "empty list", add: "server: {tp-size: []}\n", want: []string{`:5:19: flag "tp-size" has an empty list (write the values, or off)`}},
	{name: "nothing", add: "server: {tp-size: }\n", want: []string{`:5:19: the value of "tp-size" is empty (write a value, or leave the key out)`}},
	{name: "mapping as value", add: "server: {tp-size: {a: 1}}\n", want: []string{`:5:19: the value of "tp-size" is one value, not a mapping (write one plain value)`}},
	{name: "two spellings", add: "server: {tp-size: 8, tp_size: 4}\n", want: []string{
		`:5:22: warning: flag "tp_size" is passed on with its _, and sglang writes its flags with - (write tp-size)`,
		`:5:22: flags "tp-size" and "tp_size" are the same (keep one of the two)`,
	}},
	{name: "secret", add: "server: {api-key: abc}\n", want: []string{`:5:10: flag "api-key" would show a secret in the command line (give it by env, as in {NAME: "${env:NAME}"})`}},
}

var badAxes = []badGrid{
	{name: "empty", add: "sweep:\n  a: []\n  b:\n  c: {}\n", want: []string{
		`:6:3: axis "a" has no values (write values as in [0.85, 0.88], or take the axis out)`,
		`:7:3: axis "b" has no values (write values as in [0.85, 0.88], or take the axis out)`,
		`:8:3: axis "c" has no values (write bundles as in {off: {}, on: {flag: value}}, or take the axis out)`,
	}},
	{name: "value twice", add: "sweep: {a: [1, 2, 1]}\n", want: []string{`:5:19: axis "a" has the value 1 twice (keep one of the two)`}},
	{name: "number twice", add: "sweep: {a: [0.8, 0.80]}\n", want: []string{`:5:18: axis "a" has the value 0.80 twice, the same as 0.8 (keep one of the two)`}},
	{name: "off twice", add: "sweep: {a: [off, false]}\n", want: []string{`:5:18: axis "a" has the value false twice, the same as off (keep one of the two)`}},
	{name: "range meets value", add: "sweep: {a: [0.1:0.3:0.1, 0.2]}\n", want: []string{`:5:26: axis "a" has the value 0.2 twice (keep one of the two)`}},
	{name: "step zero", add: "sweep: {a: 1:2:0}\n", want: []string{`:5:12: range "1:2:0" has a step of zero (write a step above zero as in 0.80:0.94:0.02)`}},
	{name: "wrong way", add: "sweep: {a: 1:2:-1, b: 0.9:0.8:0.1}\n", want: []string{
		`:5:12: range "1:2:-1" never gets from 1 to 2 in steps of -1 (swap the ends, or turn the sign of the step)`,
		`:5:23: range "0.9:0.8:0.1" never gets from 0.9 to 0.8 in steps of 0.1 (swap the ends, or turn the sign of the step)`,
	}},
	{name: "million steps", add: "sweep: {a: 0:1:0.000001}\n", want: []string{`:5:12: range "0:1:0.000001" has more than 10000 values (use a larger step)`}},
	{name: "huge range", add: "sweep: {a: 0:999999999999999999:1}\n", want: []string{`:5:12: range "0:999999999999999999:1" has more than 10000 values (use a larger step)`}},
	{name: "uneven range", add: "sweep: {a: 0.80:0.95:0.02}\n", want: []string{`:5:12: warning: "0.80:0.95:0.02" ends at 0.94: its steps do not meet its end (write the last value that you want)`}},
	{name: "two parts", add: "sweep: {a: 1:256}\n", want: []string{`:5:12: range "1:256" has 2 parts instead of 3 (write start:stop:step as in 1:256:1, a ladder as in 1:256:x2, or quote plain text)`}},
	{name: "four parts", add: "sweep: {a: 1:2:3:4}\n", want: []string{`:5:12: range "1:2:3:4" has 4 parts instead of 3 (write start:stop:step as in 1:2:1, a ladder as in 1:256:x2, or quote plain text)`}},
	{name: "bad step", add: "sweep: {a: 1:256:2x}\n", want: []string{`:5:12: "2x" is no number in range "1:256:2x" (write plain decimal numbers as in 0.80:0.94:0.02, or a ladder as in 1:256:x2)`}},
	{name: "flat ladder", add: "sweep: {a: 1:256:x1}\n", want: []string{`:5:12: ladder "1:256:x1" multiplies by 1 and never climbs (multiply by 2 or more as in 1:256:x2)`}},
	{name: "ladder down", add: "sweep: {a: 256:1:x2}\n", want: []string{`:5:12: ladder "256:1:x2" goes down from 256 to 1 (swap the ends)`}},
	{name: "ladder from zero", add: "sweep: {a: 0:8:x2}\n", want: []string{`:5:12: ladder "0:8:x2" must start at 1 or above (write it as in 1:256:x2)`}},
	{name: "ladder of fractions", add: "sweep: {a: 0.5:8:x2}\n", want: []string{`:5:12: ladder "0.5:8:x2" needs whole numbers of at most 12 digits (write it as in 1:256:x2)`}},
	{name: "list in list", add: "sweep: {a: [[1, 2], 3]}\n", want: []string{`:5:13: a value of axis "a" is one plain value, not a list (name it: {a: {a-name: {a: [1, 2]}}})`}},
	{name: "mapping in list", add: "sweep: {a: [{b: 1}]}\n", want: []string{`:5:13: a value of axis "a" is one plain value, not a mapping (name it: {a: {a-name: {a: [1, 2]}}})`}},
	{name: "unsafe value", add: "sweep: {a: [/models/x, \"a=b\", \"a b\"]}\n", want: []string{
		`:5:13: value "/models/x" is not safe as a folder's name: only letters, digits and . _ + - are (give it a name: {a: {a-name: {a: …}}})`,
		`:5:24: value "a=b" is not safe as a folder's name: only letters, digits and . _ + - are (give it a name: {a: {a-name: {a: …}}})`,
		`:5:31: value "a b" is not safe as a folder's name: only letters, digits and . _ + - are (give it a name: {a: {a-name: {a: …}}})`,
	}},
	{name: "value with NUL", add: "sweep: {a: [\"x\\0y\"]}\n", want: []string{`:5:13: a value of axis "a" holds a NUL character (take it out)`}},
	{name: "record key", add: "sweep: {outcome: [1], short-concurrency: [1], label: [1]}\n", want: []string{
		`:5:9: axis "outcome" would hide a key that every record has (make it a bundle with another name, as in {my-outcome: {one: {outcome: …}}})`,
		`:5:23: axis "short-concurrency" would hide a key that every record has (make it a bundle with another name, as in {my-short-concurrency: {one: {short-concurrency: …}}})`,
		`:5:47: axis "label" would hide a key that every record has (make it a bundle with another name, as in {my-label: {one: {label: …}}})`,
	}},
	{name: "measured key", add: "sweep: {output_throughput: [1], p99-ttft-ms: [1], running: [1]}\n", want: []string{
		`:5:9: axis "output_throughput" would hide a key that every record has (make it a bundle with another name, as in {my-output_throughput: {one: {output_throughput: …}}})`,
		`:5:33: axis "p99-ttft-ms" would hide a key that every record has (make it a bundle with another name, as in {my-p99-ttft-ms: {one: {p99-ttft-ms: …}}})`,
		`:5:51: axis "running" would hide a key that every record has (make it a bundle with another name, as in {my-running: {one: {running: …}}})`,
	}},
	{name: "same key in results", add: "sweep: {a-b: [1], a_b: [2]}\n", want: []string{`:5:19: axes "a-b" and "a_b" have the same key in results (rename one of them)`}},
	{name: "repeats a server flag", add: "server: {tp-size: 8}\nsweep: {tp-size: [4, 8]}\n", want: []string{`:6:9: axis "tp-size" sets flag "tp-size", which server sets for every launch (take it out of server, line 5, or out of here)`}},
	{name: "bundle and axis", add: "sweep:\n  a: [1, 2]\n  b: {x: {}, y: {a: 3}}\n", want: []string{`:7:18: axis "b" sets flag "a", which axis "a" sets too (let one axis set it)`}},
	{name: "bundle of no mapping", add: "sweep: {b: {x: 1, y/z: {}}}\n", want: []string{
		`:5:16: bundle "x" is a mapping, not the number 1 (write {flag: value})`,
		`:5:19: bundle "y/z" is not safe as a folder's name: only letters, digits and . _ + - are (rename it)`,
	}},
	{name: "product", add: "sweep:\n  a: 1:100:1\n  b: 1:100:1\n", want: []string{`:5:1: 100 × 100 configs and 2 loads are more than 10000 cells (take values out, or try one axis after the other)`}},
	{name: "product of loads", add: "sweep: {a: 1:10000:1}\n", want: []string{`:5:1: 10000 configs and 2 loads are more than 10000 cells (take values out, or try one axis after the other)`}},
	{name: "long folder", add: "sweep:\n" + longAxes(), want: []string{`:5:1: the folder of config aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… would have a name of 247 characters, more than 230 (make bundles with short names)`}},
}

// longAxes are axes whose values do not fit into one folder's name.
func longAxes() string {
	var b strings.Builder
	for _, name := range []string{"a", "b", "c", "d"} {
		b.WriteString("  " + strings.Repeat(name, 50) + ": [" + strings.Repeat("v", 10) + "]\n")
	}
	return b.String()
}

const twoAxes = "sweep: {mem: [0.80, 0.90], cache: [off, 48]}\n"

var badChoices = []badGrid{
	{name: "exclude unknown axis", add: twoAxes + "exclude: [{men: 0.80}]\n", want: []string{`:6:12: exclude matches nothing: no axis is named "men" (did you mean "mem"?)`}},
	{name: "exclude unknown value", add: twoAxes + "exclude: [{mem: 0.85, cache: off}]\n", want: []string{`:6:17: exclude matches nothing: axis "mem" has no value "0.85" (its values are 0.80, 0.90)`}},
	{name: "exclude twice", add: twoAxes + "exclude: [{mem: 0.8}, {mem: 0.80, cache: 48}]\n", want: []string{`:6:23: warning: exclude matches only what earlier entries have taken out (take it out)`}},
	{name: "exclude everything", add: twoAxes + "exclude: [{mem: 0.80}, {mem: 0.90}]\n", want: []string{`:6:1: exclude leaves no config (keep at least one)`}},
	{name: "exclude nothing", add: twoAxes + "exclude: [{}]\n", want: []string{`:6:11: an exclusion without axes would leave no config (name at least one axis)`}},
	{name: "include without label", add: twoAxes + "include: [{mem: 0.85}]\n", want: []string{`:6:11: an included config has no label (add label: a-name)`}},
	{name: "include twice", add: twoAxes + "include:\n  - {label: a, mem: 0.85}\n  - {label: a, mem: 0.86}\n", want: []string{`:8:5: label "a" is given twice, first in line 7 (rename one of them)`}},
	{name: "include unsafe label", add: twoAxes + "include: [{label: a/b, mem: 0.85}]\n", want: []string{`:6:19: label "a/b" is not safe as a folder's name: only letters, digits and . _ + - are (rename it)`}},
	{name: "include owned flag", add: twoAxes + "include: [{label: a, port: 1}]\n", want: []string{`:6:22: flag "port" belongs to sweep: each launch takes a free one (take it out)`}},
	{name: "include unknown bundle", add: "sweep: {spec: {off: {}, on: {x: 1}}}\ninclude: [{label: a, spec: onn}]\n", want: []string{`:6:28: include matches nothing: axis "spec" has no value "onn" (its values are off, on)`}},
	{name: "include record key", add: twoAxes + "include: [{label: a, model: x}]\n", want: []string{`:6:22: flag "model" would hide a key that every record has (put it into server or into a bundle)`}},
	{name: "baseline lacks an axis", add: twoAxes + "baseline: {mem: 0.80}\n", want: []string{`:6:11: baseline says nothing of cache (add one value for each)`}},
	{name: "baseline unknown value", add: twoAxes + "baseline: {mem: 0.80, cache: 300}\n", want: []string{`:6:30: baseline matches nothing: axis "cache" has no value "300" (its values are off, 48)`}},
	{name: "baseline excluded", add: twoAxes + "exclude: [{cache: off}]\nbaseline: {mem: 0.80, cache: off}\n", want: []string{`:7:11: baseline is a config that exclude takes out (choose a config that runs)`}},
	{name: "baseline unknown label", add: twoAxes + "include: [{label: shipped, mem: 0.85}]\nbaseline: {label: shiped}\n", want: []string{`:7:19: baseline matches nothing: no included config has the label "shiped" (did you mean "shipped"?)`}},
	{name: "baseline of both kinds", add: twoAxes + "include: [{label: a, mem: 0.85}]\nbaseline: {label: a, mem: 0.80}\n", want: []string{`:7:12: baseline has a label and values of axes (keep the label or the values)`}},
	{name: "unacceptable without reason", add: twoAxes + "unacceptable: [{cache: off}]\n", want: []string{`:6:16: an unacceptable value has no reason (add reason: why)`}},
	{name: "unacceptable without value", add: twoAxes + "unacceptable: [{reason: x}]\n", want: []string{`:6:16: a reason stands without the value that it is for (add flag: value)`}},
	{name: "unacceptable matches nothing", add: twoAxes + "unacceptable: [{cahce: 48, reason: x}, {dtype: fp8, reason: y}]\n", want: []string{
		`:6:16: warning: unacceptable matches nothing: no config has cahce=48 (did you mean "cache"?)`,
		`:6:40: warning: unacceptable matches nothing: no config has dtype=fp8 (fine if the list is meant for later grids)`,
	}},
}

var badLoads = []badGrid{
	{name: "no classes", old: "{classes: {short: {share: 3, input: 100..200, output: 10}, long: {input: 1k, output: 20}}}", new: "{}", want: []string{`:3:13: workload "w" has no classes (add classes: {short: {input: 800, output: 200}})`}},
	{name: "unknown class key", old: "share: 3", new: "shares: 3", want: []string{`:3:35: unknown key "shares" (did you mean "share"?)`}},
	{name: "share zero", old: "share: 3", new: "share: 0", want: []string{`:3:42: share is 0, less than 1 (write a number from 1 to 1048576)`}},
	{name: "share below zero", old: "share: 3", new: "share: -1", want: []string{`:3:42: share is -1, less than 1 (write a number from 1 to 1048576)`}},
	{name: "share of a half", old: "share: 3", new: "share: 1.5", want: []string{`:3:42: share is a whole number, not 1.5 (write it without decimals)`}},
	{name: "length backwards", old: "100..200", new: "200..100", want: []string{`:3:52: input 200..100 runs backwards (write 100..200)`}},
	{name: "length of nothing", old: "100..200", new: "0..100", want: []string{`:3:52: the lower end of input is 0, less than 1 (write a number from 1 to 10000000)`}},
	{name: "length in words", old: "100..200", new: "100-200", want: []string{`:3:52: input is a whole number or a range, not "100-200" (write 100..200)`}},
	{name: "open length", old: "100..200", new: "100..", want: []string{`:3:52: the upper end of input is a whole number, not "" (write digits, as in 64 or 6k)`}},
	{name: "no output", old: ", output: 10", new: "", want: []string{`:3:27: class "short" has no output length (write it as in {input: 800..1600, output: 200..600})`}},
	{name: "prefix too long", old: "output: 10", new: "output: 10, shared_prefix: {groups: 4, tokens: 100}", want: []string{`:3:109: a shared prefix of 100 tokens leaves nothing of the shortest input, 100 (write less than 100)`}},
	{name: "prefix in part", old: "output: 10", new: "output: 10, shared_prefix: {tokens: 10}", want: []string{`:3:89: shared_prefix has no groups (write {groups: 400, tokens: 640})`}},
	{name: "slo metric", old: "output: 10", new: "output: 10, slo: {tftt: p90<1s}", want: []string{`:3:80: unknown metric "tftt" (did you mean "ttft"?)`}},
	{name: "slo form", old: "output: 10", new: "output: 10, slo: {ttft: p90>1s, tpot: p100<1s, itl: p90<1, e2e: [p9<1s, p9<2s]}", want: []string{
		`:3:86: slo "p90>1s" has no form pNN<TIME (write it as in p90<30s)`,
		`:3:100: slo "p100<1s" has no form pNN<TIME (write it as in p90<30s)`,
		`:3:114: slo "p90<1" has no form pNN<TIME (write it as in p90<30s)`,
		`:3:134: e2e has two limits for the same quantile (keep one of the two)`,
	}},
	{name: "class name", old: "short:", new: "1st:", want: []string{`:3:27: "1st" is no name of a class (begin with a letter and use letters, digits, _ and -, at most 40)`}},
	{name: "class that hides keys", old: "short:", new: "mean:", want: []string{`:3:27: class "mean" would hide keys that every record has (rename it)`}},
	{name: "load of unknown workload", old: "{workload: w,", new: "{workload: v,", want: []string{`:4:19: no workload is named "v" (did you mean "w"?)`}},
	{name: "load without level", old: ", concurrency: [4, 8]", new: "", want: []string{`:4:8: a load has no concurrency and no rate (write it as in {workload: name, concurrency: [64]}, or {workload: name, rate: [2]})`}},
	{name: "no levels", old: "[4, 8]", new: "[]", want: []string{`:4:22: concurrency has no levels (write levels as in [64, 128], or a ladder as in 1:256:x2)`}},
	{name: "half a request", old: "[4, 8]", new: "[1.5]", want: []string{`:4:36: concurrency is a whole number, not 1.5 (write it without decimals)`}},
	{name: "octal", old: "[4, 8]", new: "[010]", want: []string{`:4:36: concurrency is 010, and a number with a leading zero is octal to some readers (write 10, or quote it as text)`}},
	{name: "words", old: "[4, 8]", new: "[many]", want: []string{`:4:36: concurrency is a whole number, not "many" (write digits, as in 64 or 6k)`}},
	{name: "fewer than classes", old: "[4, 8]", new: "[1]", want: []string{`:4:36: concurrency 1 is less than the 2 classes of workload "w": each needs at least one (write 2 or more)`}},
	{name: "too many", old: "[4, 8]", new: "[200k]", want: []string{`:4:36: concurrency is 200000, more than 100000 (write a number from 1 to 100000)`}},
	{name: "level of an unknown class", old: "[4, 8]", new: "[{short: 3, lnog: 1}]", want: []string{`:4:47: workload "w" has no class "lnog" (did you mean "long"?)`}},
	{name: "class left out", old: "[4, 8]", new: "[{short: 3}]", want: []string{`:4:36: a level of workload "w" says nothing of long (give each class a number)`}},
	{name: "class at zero", old: "[4, 8]", new: "[{short: 3, long: 0}]", want: []string{`:4:53: concurrency of "long" is 0, less than 1 (write a number from 1 to 100000)`}},
	{name: "load twice", old: "[4, 8]", new: "[4, {short: 3, long: 1}]", want: []string{`:4:39: load w,short=3,long=1 is given twice, first in line 4 (keep one of the two)`}},
	{name: "fractional range", old: "[4, 8]", new: "2:4:0.5", want: []string{`:4:35: concurrency is a whole number, not 2.0 (write it without decimals)`}},
	{name: "unused workload", old: "workloads: {", new: "workloads: {idle: {classes: {a: {input: 1, output: 1}}}, ", want: []string{`:3:13: warning: workload "idle" is in no load (add it to load, or take it out)`}},
	{name: "empty load", old: "[{workload: w, concurrency: [4, 8]}]", new: "[]", want: []string{`:4:7: load is empty (add one as in [{workload: name, concurrency: [64]}])`}},
}

var badMeasures = []badGrid{
	{name: "price and edge", add: "price_per_hour: $12\naccept_edge: yes\n", want: []string{
		`:5:17: price_per_hour is what one host costs in an hour, not "$12" (write a number, as in 12.50)`,
		`:6:14: accept_edge is true or false, not "yes" (write true or false)`,
	}},
	{name: "price of nothing", add: "price_per_hour: 0\naccept_edge:\n", want: []string{
		`:5:17: price_per_hour 0 is not above 0 and at most 100000 (write dollars an hour, or leave the key out)`,
		`:6:1: accept_edge is empty (write a value, or leave the key out)`,
	}},
	{name: "max below min", add: "measure: {window: {min: 2m, max: 1m}}\n", want: []string{`:5:34: the window's max 1m is less than its min 2m (write 2m or more)`}},
	{name: "no unit", add: "measure: {window: {min: 120}}\n", want: []string{`:5:25: min is 120 without a unit (write 120s or 120m)`}},
	{name: "no time", add: "measure: {warmup: soon, window: {min: 2 minutes}}\n", want: []string{
		`:5:19: warmup is first-cohort or a time, not "soon" (write first-cohort, or 30s)`,
		`:5:39: min is a time, not "2 minutes" (write it as in 90s, 2m or 1h30m)`,
	}},
	{name: "too short", add: "measure: {window: {min: 0s}}\n", want: []string{`:5:25: min is 0s, too short (write 1s or more)`}},
	{name: "too long", add: "measure: {window: 1000h}\n", want: []string{`:5:19: window is 1000h, more than 30 days (write at most 720h)`}},
	{name: "unknown class", add: "measure: {window: {requests: {shrot: 30, long: 1.5}}}\n", want: []string{
		`:5:31: no workload has a class "shrot" (did you mean "short"?)`,
		`:5:48: requests of "long" is a whole number, not 1.5 (write it without decimals)`,
	}},
	{name: "lives", old: "output: 20", new: "output: 1k..2k", add: "measure: {window: {min: 1m, requests: {long: 3}, max: 2m}}\n", want: []string{`:5:55: warning: the window's max is 2m, but a request of class "long" in "w" is expected to take 1m15s (1500 tokens at 50ms), and a window needs two such lives (write 2m30s or more)`}},
	{name: "lives at min", old: "output: 20", new: "output: 2k", add: "measure: {window: {min: 1m}}\n", want: []string{`:5:25: warning: the window's min is 1m, but a request of class "long" in "w" is expected to take 1m40s (2000 tokens at 50ms), and a window needs two such lives (write 3m20s or more)`}},
	{name: "repeats", add: "repeats: 0\n", want: []string{`:5:10: repeats is 0, less than 1 (write a number from 1 to 100)`}},
	{name: "half a repeat", add: "repeats: 1.5\n", want: []string{`:5:10: repeats is a whole number, not 1.5 (write it without decimals)`}},
	{name: "drift", add: "drift: maybe\n", want: []string{`:5:8: drift is on or off, not "maybe" (write on or off)`}},
	{name: "limits", add: "limits: {start: 0s, stall: -1m, load_stal: 1m}\n", want: []string{
		`:5:17: start is 0s, too short (write 1s or more)`,
		`:5:28: stall is -1m, too short (write 1s or more)`,
		`:5:33: unknown key "load_stal" (did you mean "load_stall"?)`,
	}},
	{name: "nothing", add: "repeats:\ndrift:\nmeasure:\n", want: []string{
		`:5:1: repeats is empty (write a value, or leave the key out)`,
		`:6:1: drift is empty (write a value, or leave the key out)`,
		`:7:1: measure is empty (write {window: {min: 2m}}, or leave the key out)`,
	}},
}

var badHosts = []badGrid{
	{name: "recover", add: "hosts: [{ssh: root@gpu1, strangers: wait, recover: [./r.sh]}]\n", want: []string{
		`:5:53: the command of recover, "./r.sh", has no absolute path (begin it with / or ~/: it runs next to the GPUs, from another folder)`,
	}},
	{name: "budget", add: "budget: 0s\n", want: []string{`:5:9: budget is 0s, too short (write 1s or more)`}},
	{name: "form", add: "hosts: [{ssh: \"a b\", strangers: kill, recover: [], gpu_reset: maybe}]\nuntil: 7 o'clock\nbudget: 12\n", want: []string{
		`:5:15: ssh "a b" is no host (write a name as in ~/.ssh/config, or user@host:port)`,
		`:5:33: unknown policy "kill" for strangers (write fail, wait or skip)`,
		`:5:48: recover is empty (write the words of a command)`,
		`:5:63: gpu_reset is on or off, not "maybe" (write on or off)`,
		`:6:8: until is a time of day, not "7 o'clock" (write a time of day as in "07:30")`,
		`:7:1: "until" and "budget" bound the same night (keep one of the two)`,
		`:7:9: budget is 12 without a unit (write 12s or 12m)`,
	}},
	{name: "container", add: "container: {runtime: lxc, image: \"sglang:latest\", args: [--name=x, -d, -v]}\n", want: []string{
		`:5:22: runtime is docker or podman, not "lxc" (write docker, podman, or a path that begins with /)`,
		`:5:34: image "sglang:latest" has no digest, so it may be another one tomorrow (write NAME@sha256:… as 'docker inspect --format {{.RepoDigests}} NAME' shows it)`,
		`:5:58: --name belongs to sweep: containers are found by their ids alone (take it out)`,
		`:5:68: -d belongs to sweep: the container's output is its server's log (take it out)`,
	}},
	{name: "container lacks", add: "container: {args: []}\n", want: []string{
		`:5:12: container has no runtime (write {runtime: docker, image: lmsysorg/sglang@sha256:…})`,
		`:5:12: container has no image (write {runtime: docker, image: lmsysorg/sglang@sha256:…})`,
	}},
	{name: "gpus", add: "hosts: [{gpus: [0, 0, x, 01]}]\n", want: []string{
		`:5:20: GPU 0 is given twice (keep one of the two)`,
		`:5:23: "x" names no GPU (write an index as in 4, or a UUID as nvidia-smi -L shows it)`,
		`:5:26: a GPU is 01, and a number with a leading zero is octal to some readers (write 1, or quote it as text)`,
	}},
	{name: "gpus of another entry", add: "hosts: [{gpus: [0, 1]}, {gpus: [2, 1]}]\n", want: []string{`:5:36: local-2 takes GPU 1, which local has (give each entry its own gpus)`}},
	{name: "all gpus twice", add: "hosts: [{gpus: all}, {gpus: [2]}]\n", want: []string{`:5:22: local and local-2 are the same machine, and one of them takes all of its GPUs (give each entry its own gpus)`}},
	{name: "profile", add: "hosts: [{simulate: two-card}]\n", want: []string{`:5:20: unknown profile "two-card" (did you mean "two-cards"?)`}},
	{name: "ssh", add: "hosts: [{ssh: gpu1, transport: telnet, host_key: \"MD5:00\", dir: tmp, lease: 1s}]\n", want: []string{
		`:5:32: unknown transport "telnet" (write native or openssh)`,
		`:5:50: "MD5:00" is no fingerprint of a key (write it as ssh-keygen -l prints it: SHA256:…)`,
		`:5:65: dir "tmp" is no folder on the host (begin it with / or ~/, and use letters, digits and . _ - + = @)`,
		`:5:77: lease is 1s, too short (write 1m or more)`,
	}},
	{name: "ssh of nobody", add: "hosts: [{lease: 2h, ssh_config: x}]\n", want: []string{
		`:5:10: "lease" is for a host with ssh (add ssh:, or leave it out)`,
		`:5:21: "ssh_config" is for a host with ssh (add ssh:, or leave it out)`,
	}},
	{name: "pinned for another's eyes", add: "hosts: [{ssh: gpu1, transport: openssh, host_key: \"SHA256:2lZAzqvKGAFTbrgFSa6PCrHGVBBvEPANPnoMrxm2fEY\"}]\n", want: []string{
		`:5:41: host_key is checked by the native transport only (leave one of the two out)`,
	}},
	{name: "home of another machine", add: "hosts: [{ssh: gpu1}]\nworkdir: ~/x\n", want: []string{`:6:10: workdir is "~/x", and it is on a host whose home is not known here (write the folder in full)`}},
	{name: "gpus of another entry over ssh", add: "hosts: [{ssh: gpu1, gpus: [0, 1]}, {ssh: gpu1, gpus: [2, 1]}, {gpus: [1]}]\n", want: []string{`:5:58: gpu1-2 takes GPU 1, which gpu1 has (give each entry its own gpus)`}},
	{name: "unknown key", add: "hosts: [{gpu: all}]\n", want: []string{`:5:10: unknown key "gpu" (did you mean "gpus"?)`}},
}
