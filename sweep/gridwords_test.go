package sweep

import (
	"slices"
	"testing"
)

// badWords are the mistakes of people who know other tools.
var badWords = []badGrid{
	{name: "flags", add: "flags: {tp-size: 8}\n", want: []string{`:5:1: unknown key "flags" (that is "server", or a part of it; 'sweep help grid' shows each key)`}},
	{name: "extra-args", add: "extra-args: [x]\n", want: []string{`:5:1: unknown key "extra-args" (that is "server", or a part of it; 'sweep help grid' shows each key)`}},
	{name: "window at the top", add: "window: 2m\n", want: []string{`:5:1: unknown key "window" (that is "measure", or a part of it; 'sweep help grid' shows each key)`}},
	{name: "concurrency at the top", add: "concurrency: [8]\n", want: []string{`:5:1: unknown key "concurrency" (that is "load", or a part of it; 'sweep help grid' shows each key)`}},
	{name: "concurrency as a flag", add: "sweep: {concurrency: [8, 16]}\n", want: []string{
		`:5:9: concurrency is no flag of a server: requests in flight are an axis of load (write it under load: [{workload: name, concurrency: [64, 128]}])`,
	}},
	{name: "underscores", add: "sweep: {mem_fraction_static: [0.8, 0.9]}\nserver: {tp_size: 8}\n", want: []string{
		`:5:9: warning: flag "mem_fraction_static" is passed on with its _, and sglang writes its flags with - (write mem-fraction-static)`,
		`:6:10: warning: flag "tp_size" is passed on with its _, and sglang writes its flags with - (write tp-size)`,
	}},
	{name: "another range of values", add: "sweep: {m: [0.80..0.94, 0.1-0.2, \"1-2\"]}\n", want: []string{
		`:5:13: warning: a value of axis "m" is the text "0.80..0.94", not a range (write a range with its step as in 0.80:0.94:STEP, or a ladder as in 1:256:x2; quote it if the server wants this very text)`,
		`:5:25: warning: a value of axis "m" is the text "0.1-0.2", not a range (write a range with its step as in 0.1:0.2:STEP, or a ladder as in 1:256:x2; quote it if the server wants this very text)`,
	}},
	{name: "another range of lengths", old: "100..200", new: "1k to 2k", want: []string{`:3:52: input is a whole number or a range, not "1k to 2k" (write 1k..2k)`}},
	{name: "another range of levels", old: "[4, 8]", new: "[8..64]", want: []string{
		`:4:36: concurrency is a whole number, not "8..64" (write a range with its step as in 8:64:STEP, or a ladder as in 1:256:x2)`,
	}},
}

func TestOtherWords(t *testing.T) {
	t.Parallel()
	for _, test := range badWords {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
	for word, section := range otherWords {
		if !slices.Contains(gridKeys, section) {
			t.Errorf("%q is said to be %q, which is no key of a grid", word, section)
		}
		if slices.Contains(gridKeys, word) {
			t.Errorf("%q is a key of a grid by itself", word)
		}
	}
}
