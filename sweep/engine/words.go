package engine

import (
	_ "embed" // for the list of words
	"strings"
)

//go:embed words.txt
var wordList string

// commonWords are plain English words: what a tokenizer makes of them are ordinary text tokens.
func commonWords() []string { return strings.Fields(wordList) }
