package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The simulated tokenizer is a small byte-level BPE: 256 bytes, the 676 pairs of small letters, each small
// letter after a space, and each pair after a space. All ids above are special or unused. Text is
// cut greedily into the longest of these, which is what the merges give for lower-case text.
const (
	firstPair      = 256
	firstSpace     = firstPair + 26*26
	firstSpacePair = firstSpace + 26
	ordinaryTokens = firstSpacePair + 26*26
)

// specialTokens stand at the end of the model's vocabulary, in this order.
var specialTokens = [...]string{"<|begin_of_text|>", "<|end_of_text|>", "<|im_user|>", "<|im_assistant|>", "<|im_end|>", "<tool_call>"}

// outputTokens are what the simulated model says: a space and two letters each.
var outputTokens = func() []int32 {
	list := make([]int32, 26*26)
	for i := range list {
		list[i] = int32(firstSpacePair + i)
	}
	return list
}()

// tokenText is the text of an ordinary token.
func tokenText(id int32) string {
	letters := func(i int32) string { return string([]byte{byte('a' + i/26), byte('a' + i%26)}) }
	switch {
	case id < 0 || id >= ordinaryTokens:
		return ""
	case id < firstPair:
		return string([]byte{byte(id)})
	case id < firstSpace:
		return letters(id - firstPair)
	case id < firstSpacePair:
		return string([]byte{' ', byte('a' + id - firstSpace)})
	}
	return " " + letters(id-firstSpacePair)
}

// tokenize cuts text greedily into ordinary tokens.
func tokenize(text string) []int32 {
	ids := make([]int32, 0, len(text)/2+1)
	letter := func(i int) (int32, bool) {
		if i < len(text) && text[i] >= 'a' && text[i] <= 'z' {
			return int32(text[i] - 'a'), true
		}
		return 0, false
	}
	for i := 0; i < len(text); {
		space := 0
		if text[i] == ' ' {
			space = 1
		}
		a, okA := letter(i + space)
		b, okB := letter(i + space + 1)
		switch {
		case okA && okB && space == 1:
			ids = append(ids, firstSpacePair+a*26+b)
			i += 3
		case okA && okB:
			ids = append(ids, firstPair+a*26+b)
			i += 2
		case okA && space == 1:
			ids = append(ids, firstSpace+a)
			i += 2
		default:
			ids = append(ids, int32(text[i]))
			i++
		}
	}
	return ids
}

// byteRune is the printable stand-in for a byte in a byte-level vocabulary, as GPT-2 introduced it.
func byteRune(b byte) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae && b <= 0xff }
	if printable(int(b)) {
		return rune(b)
	}
	n := 0
	for i := range int(b) {
		if !printable(i) {
			n++
		}
	}
	return rune(256 + n)
}

func byteLevel(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteRune(s[i]))
	}
	return b.String()
}

// tokenizerJSON is the tokenizer in the format of Hugging Face's tokenizers.
func tokenizerJSON(p *Profile) ([]byte, error) {
	vocabulary := make(map[string]int, ordinaryTokens)
	for id := range int32(ordinaryTokens) {
		vocabulary[byteLevel(tokenText(id))] = int(id)
	}
	var merges [][2]string
	for a := range int32(26) {
		for b := range int32(26) {
			merges = append(merges, [2]string{string(rune('a' + a)), string(rune('a' + b))})
		}
	}
	for a := range int32(26) {
		merges = append(merges, [2]string{"Ġ", string(rune('a' + a))})
	}
	for id := range int32(26 * 26) {
		merges = append(merges, [2]string{"Ġ", tokenText(firstPair + id)})
	}
	var added []map[string]any
	for i, text := range specialTokens {
		added = append(added, map[string]any{
			"id": p.VocabularySize - len(specialTokens) + i, "content": text, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false, "special": !strings.HasPrefix(text, "<tool"),
		})
	}
	byteLevelStep := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	return json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": byteLevelStep, "post_processor": nil, "decoder": byteLevelStep,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": merges,
		},
	})
}

// writeTokenizer puts the tokenizer of a profile into a folder of its own and returns the folder.
func writeTokenizer(p *Profile, state string) (string, error) {
	dir := filepath.Join(state, "tokenizer-"+p.Name)
	data, err := tokenizerJSON(p)
	if err != nil {
		return "", fmt.Errorf("tokenizer: %w", err)
	}
	if err := writeAtomic(filepath.Join(dir, "tokenizer.json"), data); err != nil {
		return "", fmt.Errorf("tokenizer: %w", err)
	}
	return dir, nil
}

// writeAtomic writes a file so that readers see the old or the new content, never a part.
func writeAtomic(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
