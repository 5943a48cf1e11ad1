package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// minVocabulary is how many tokens a vocabulary needs before prompts are drawn from it: with fewer,
// prompts would share beginnings by accident.
const minVocabulary = 256

// enough returns the ids, or nothing when they are too few.
func enough(ids []int) []int {
	if len(ids) < minVocabulary {
		return nil
	}
	return ids
}

// plainWord reports a piece of ordinary text: ASCII letters, perhaps behind one space. A single special or
// made-up token in a prompt can change what a server does or end it, so nothing else is ever used.
func plainWord(piece string) bool {
	for _, space := range []string{" ", "Ġ", "▁", "##"} { // as text, byte-level BPE, sentencepiece, WordPiece
		if rest, ok := strings.CutPrefix(piece, space); ok {
			piece = rest
			break
		}
	}
	for i := range len(piece) {
		if c := piece[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return piece != ""
}

// modelFolder finds a model on this machine: a folder, or a snapshot in the Hugging Face hub's cache. It
// returns "" when there is none.
func modelFolder(name string) string {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name
	}
	if strings.Count(name, "/") > 1 || filepath.IsAbs(name) {
		return ""
	}
	repo := filepath.Join(hubCache(), "models--"+strings.ReplaceAll(name, "/", "--"))
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", "main")); err == nil {
		return filepath.Join(repo, "snapshots", strings.TrimSpace(string(ref)))
	}
	if found, err := filepath.Glob(filepath.Join(repo, "snapshots", "*")); err == nil && len(found) == 1 {
		return found[0]
	}
	return ""
}

// hubCache is where the Hugging Face hub keeps models, by the variables that its own client reads.
func hubCache() string {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if dir := os.Getenv(name); dir != "" {
			return dir
		}
	}
	if home := os.Getenv("HF_HOME"); home != "" {
		return filepath.Join(home, "hub")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if home, err := os.UserHomeDir(); cache == "" && err == nil {
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "huggingface", "hub")
}

// textTokens reads the ordinary text tokens from a model's tokenizer.json. A model without one (it has
// its tokenizer in another form) gives none, and no error.
func textTokens(folder string) ([]int, error) {
	f, err := os.Open(filepath.Join(folder, "tokenizer.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ids, err := readTokenizer(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if size := vocabularySize(filepath.Join(folder, "config.json")); size > 0 {
		ids = slices.DeleteFunc(ids, func(id int) bool { return id >= size })
	}
	return enough(ids), nil
}

// vocabularySize is the number of ids that the model's embedding has; 0: not known.
func vocabularySize(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	var config struct {
		Size int `json:"vocab_size"`
		Text struct {
			Size int `json:"vocab_size"`
		} `json:"text_config"`
	}
	if json.Unmarshal(data, &config) != nil {
		return 0
	}
	if config.Size == 0 {
		return config.Text.Size
	}
	return config.Size
}

// readTokenizer reads a tokenizer.json as a stream: they have tens of megabytes, most of it merges.
func readTokenizer(r io.Reader) ([]int, error) {
	dec := json.NewDecoder(r)
	words, added := map[int]bool{}, map[int]bool{}
	err := eachKey(dec, func(key string) error {
		switch key {
		case "added_tokens":
			var tokens []struct {
				ID int `json:"id"`
			}
			if err := dec.Decode(&tokens); err != nil {
				return err
			}
			for _, t := range tokens {
				added[t.ID] = true
			}
			return nil
		case "model":
			return eachKey(dec, func(key string) error {
				if key == "vocab" {
					return readVocabulary(dec, words)
				}
				return skip(dec)
			})
		}
		return skip(dec)
	})
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	var ids []int
	for id := range words {
		if !added[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// readVocabulary reads {"token": id, …}, or [["token", score], …] where the place is the id.
func readVocabulary(dec *json.Decoder, words map[int]bool) error {
	open, err := dec.Token()
	if err != nil {
		return err
	}
	switch open {
	case json.Delim('{'):
		for dec.More() {
			token, err := dec.Token()
			if err != nil {
				return err
			}
			var id int
			if err := dec.Decode(&id); err != nil {
				return err
			}
			if plainWord(token.(string)) && id >= 0 {
				words[id] = true
			}
		}
	case json.Delim('['):
		for id := 0; dec.More(); id++ {
			var pair []any
			if err := dec.Decode(&pair); err != nil {
				return err
			}
			if len(pair) > 0 {
				if token, ok := pair[0].(string); ok && plainWord(token) {
					words[id] = true
				}
			}
		}
	default:
		return fmt.Errorf("vocab is neither an object nor a list")
	}
	_, err = dec.Token()
	return err
}

// eachKey calls fn for each key of the object that comes next; fn reads the value.
func eachKey(dec *json.Decoder, fn func(key string) error) error {
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open == nil {
		return nil
	}
	if open != json.Delim('{') {
		return fmt.Errorf("want an object, have %v", open)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if err := fn(key.(string)); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// skip passes over one value without keeping it.
func skip(dec *json.Decoder) error {
	depth := 0
	for {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
