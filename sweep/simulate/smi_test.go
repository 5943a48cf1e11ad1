package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func smiText(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(context.Background(), append([]string{"nvidia-smi", "--profile", "llama-8b-24gb"}, args...), nil, &out, &errs)
	return out.String() + errs.String(), code
}

func TestSMI(t *testing.T) {
	t.Setenv(StateVariable, t.TempDir())
	p := llama()
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--query-gpu=index,name,memory.total", "--format=csv"}, "index, name, memory.total [MiB]\n0, NVIDIA L4, 23034 MiB\n", 0},
		{[]string{"--query-gpu=memory.used,memory.free", "--format=csv,nounits,noheader"}, "0, 22584\n", 0},
		{[]string{"--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv,nounits"}, "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n", 0},
		{[]string{"--query-gpu=index,no.such", "--format=csv"}, "Field \"no.such\" is not a valid field to query.\n", 2},
		{[]string{"--nonsense"}, "Option --nonsense is not recognized. Please run 'nvidia-smi -h'.\n", 2},
	} {
		if got, code := smiText(t, c.args...); got != c.want || code != c.code {
			t.Errorf("%v: %d %q, want %d %q", c.args, code, got, c.code, c.want)
		}
	}
	if err := WriteClaims(p, "stranger", []Claim{
		{PID: os.Getpid(), StartTicks: startTicks(os.Getpid()), Name: "python3", GPUBytes: map[int]int64{0: 3 * gib}, HostBytes: 2 * gb},
		{PID: os.Getpid(), StartTicks: 1, Name: "long dead", GPUBytes: map[int]int64{0: 3 * gib}},
	}); err != nil {
		t.Fatal(err)
	}
	if got, _ := smiText(t, "--query-gpu=memory.used", "--format=csv,nounits,noheader"); got != "3072\n" {
		t.Errorf("beside a stranger of 3 GiB: %q MiB in use", got)
	}
	if got, _ := smiText(t, "--query-compute-apps=process_name,used_gpu_memory", "--format=csv,noheader"); got != "python3, 3072 MiB\n" {
		t.Errorf("the processes are %q", got)
	}
}

func TestTokenizerIsValid(t *testing.T) {
	data, err := tokenizerJSON(llama())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Added []struct {
			ID      int  `json:"id"`
			Special bool `json:"special"`
		} `json:"added_tokens"`
		Model struct {
			Type   string         `json:"type"`
			Vocab  map[string]int `json:"vocab"`
			Merges [][2]string    `json:"merges"`
		} `json:"model"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Model.Vocab) != ordinaryTokens || file.Model.Type != "BPE" {
		t.Errorf("%d different tokens, want %d", len(file.Model.Vocab), ordinaryTokens)
	}
	for _, m := range file.Model.Merges { // each merge joins two tokens into a third
		for _, part := range []string{m[0], m[1], m[0] + m[1]} {
			if _, ok := file.Model.Vocab[part]; !ok {
				t.Fatalf("merge %v: %q is no token", m, part)
			}
		}
	}
	for _, a := range file.Added {
		if a.ID < ordinaryTokens || a.ID >= llama().VocabularySize {
			t.Errorf("added token %d is among the ordinary or beyond the vocabulary", a.ID)
		}
	}
	const text = "the quick brown fox, and 12 more"
	var back strings.Builder
	for _, id := range tokenize(text) {
		back.WriteString(tokenText(id))
	}
	if back.String() != text {
		t.Errorf("%q came back as %q", text, back.String())
	}
}
