package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sweep/sweep"
)

// llamaCPP is llama.cpp's llama-server. A prompt cache is kept by its slots and has no reset: erasing a
// slot needs a folder for saved slots, and the copy in host memory stays. Prompts are salted for each
// run, so that nothing of an earlier run is found; therefore there is no Flush.
func llamaCPP() *sweep.Engine {
	return &sweep.Engine{
		Name:    "llama.cpp",
		Command: []string{"llama-server"},
		Argv:    llamaArgv,
		Owned: map[string]string{
			"m": llamaModelReason, "model": llamaModelReason, "mu": llamaModelReason, "model-url": llamaModelReason,
			"hf": llamaModelReason, "hfr": llamaModelReason, "hf-repo": llamaModelReason, "hff": llamaModelReason, "hf-file": llamaModelReason,
			"dr": llamaModelReason, "docker-repo": llamaModelReason, "models-dir": llamaModelReason, "models-preset": llamaModelReason,
			"host": "sweep gives each launch its own address", "port": "sweep gives each launch its own ports",
			"alias": "sweep names each launch's model, to know its own server when it answers", "a": "sweep names each launch's model, to know its own server when it answers",
			"api-key": llamaKeyReason, "api-key-file": llamaKeyReason, "api-prefix": "sweep asks the server's routes at their usual paths",
			"ssl-key-file": llamaTLSReason, "ssl-cert-file": llamaTLSReason,
			"log-disable": llamaLogReason, "log-file": llamaLogReason, "log-jsonl": llamaLogReason, "lv": llamaLogReason, "verbosity": llamaLogReason, "log-verbosity": llamaLogReason,
			"log-prefix": llamaLogReason, "no-log-prefix": llamaLogReason,
			"embedding": llamaTextReason, "embeddings": llamaTextReason, "rerank": llamaTextReason, "reranking": llamaTextReason,
			"sleep-idle-seconds": "the server must not unload its model between two loads",
			"metrics":            "sweep always turns it on", "slots": "sweep always turns it on",
		},
		NewLog:     func() sweep.LogReader { return &llamaReader{reader: newReader(llamaLines())} },
		Verdict:    verdict,
		Preflight:  func([]sweep.Setting, sweep.Machine) *sweep.Ending { return nil },
		ModelForm:  sweep.ModelGGUF,
		Help:       [][]string{{"--help"}},
		Health:     "/health",
		Models:     "/v1/models",
		Generate:   "/v1/completions",
		Body:       map[string]any{"temperature": 0, "ignore_eos": true, "timings_per_token": true, "stream_options": map[string]any{"include_usage": true}},
		TokenIDs:   true,
		Inspect:    llamaInspect,
		Sample:     llamaSample,
		Vocabulary: llamaVocabulary,
	}
}

const (
	llamaModelReason = "the model is the grid's key \"model\""
	llamaKeyReason   = "sweep sends no key"
	llamaTLSReason   = "sweep speaks plain HTTP to its own server"
	llamaLogReason   = "sweep reads the server's log"
	llamaTextReason  = "sweep measures text generation"
)

// llamaOnce are the flags that are only given when the grid does not: without them the server would look
// for models in the network and serve a web page.
var llamaOnce = []struct {
	flag  string
	names []string // in a grid
}{{"--offline", []string{"offline"}}, {"--no-ui", []string{"ui", "no-ui", "webui", "no-webui"}}}

func llamaArgv(s sweep.ServerSpec) []string {
	argv := []string{"-m", s.Model, "--host", s.Host, "--port", fmt.Sprint(s.Port), "--alias", s.ServedName, "--metrics", "--slots"}
	for _, o := range llamaOnce {
		if _, ok := setting(s.Settings, o.names...); !ok {
			argv = append(argv, o.flag)
		}
	}
	return append(argv, llamaDialect.render(s.Settings)...)
}

// llamaDialect: llama-server writes short names, of one letter or several, with one dash. Its flags
// that take on, off and auto need the word.
var llamaDialect = dialect{
	short: words(`C Cb Cbd Cd Cr Crb Crd a ag b bs c cb cl cmoe cmoed cms cram ctk ctkd ctv ctvd ctxcp dev devd dr dt e fa fit fitc fitt h hf hfd hff hfr hfrd hft
		j jf kvo kvu l lcd lcs lm lv lzm m md mg mm mmdev mmu mu n ncffn ncmoe ncmoed ngl ngld nkvo no-ag no-kvu nocb np nr ot otd r rea s sm sp sps t tb tbd td to ts ub v`),
	verbatim: words("fa flash-attn fit rea reasoning lzm lazy-mode log-colors"),
}

func words(s string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		m[w] = true
	}
	return m
}

// llamaInspect reads /props: the build, the slots and the context of each.
func llamaInspect(ctx context.Context, get sweep.Getter) (sweep.Inspection, error) {
	in := sweep.Inspection{Facts: sweep.Values{}}
	var props struct {
		Settings struct {
			Context float64 `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Slots float64 `json:"total_slots"`
		Build string  `json:"build_info"`
	}
	if err := getJSON(ctx, get, "/props", &props); err != nil {
		return in, err
	}
	in.Version = props.Build
	if props.Settings.Context > 0 {
		in.Facts["context_length"] = props.Settings.Context
	}
	if props.Slots > 0 {
		in.Facts["max_running_requests"] = props.Slots
	}
	return in, nil
}

// llamaSignals are llama-server's names. It counts generated tokens when a request ends, and prompt tokens
// without those found in the cache.
var llamaSignals = map[string]string{
	"llamacpp:requests_processing":        sweep.SignalRunning,
	"llamacpp:requests_deferred":          sweep.SignalQueued,
	"llamacpp:tokens_predicted_total":     sweep.SignalFinishedTokens,
	"llamacpp:prompt_tokens_total":        sweep.SignalPromptTokens,
	"llamacpp:prompt_tokens_cached_total": sweep.SignalCachedDevice,
	"llamacpp:kv_cache_usage_ratio":       sweep.SignalTokenUsage, // until mid 2025
}

func llamaSample(ctx context.Context, get sweep.Getter) (sweep.Values, error) {
	page, err := getOK(ctx, get, "/metrics")
	if err != nil {
		return nil, err
	}
	values := sweep.Values{}
	samples(page, func(s sample) {
		if name, ok := llamaSignals[string(s.name)]; ok {
			values[name] = s.value
		}
	})
	// What the signal means is all prompt tokens of the requests, found or computed.
	if cached, ok := values[sweep.SignalCachedDevice]; ok {
		values[sweep.SignalPromptTokens] += cached
	}
	return values, nil
}

// llamaVocabulary asks the server to split ordinary words: the ids that it gives are those of its own
// vocabulary, text tokens all. A word whose ids do not come back as the same text is not used.
func llamaVocabulary(ctx context.Context, get sweep.Getter, _ string) ([]int, error) {
	ask, err := json.Marshal(map[string]any{"content": " " + strings.Join(commonWords(), " "), "add_special": false, "parse_special": false, "with_pieces": true})
	if err != nil {
		return nil, err
	}
	status, reply, err := get(ctx, http.MethodPost, "/tokenize", ask)
	if err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("vocabulary: /tokenize answered %d: %s", status, cut(string(reply), 200))
	}
	var split struct {
		Tokens []struct {
			ID    int             `json:"id"`
			Piece json.RawMessage `json:"piece"` // a string; a list of bytes when it is no text
		} `json:"tokens"`
	}
	if err := json.Unmarshal(reply, &split); err != nil {
		return nil, fmt.Errorf("vocabulary: reply of /tokenize: %w", err)
	}
	var ids []int
	for _, t := range split.Tokens {
		var text string
		if json.Unmarshal(t.Piece, &text) == nil && plainWord(text) {
			ids = append(ids, t.ID)
		}
	}
	slices.Sort(ids)
	return enough(slices.Compact(ids)), nil
}

// getOK asks for a page that must answer 200.
func getOK(ctx context.Context, get sweep.Getter, path string) ([]byte, error) {
	status, reply, err := get(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if status != http.StatusOK {
		return nil, &statusError{path, status, reply}
	}
	return reply, nil
}

// statusError is an answer other than 200.
type statusError struct {
	path   string
	status int
	reply  []byte
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: answered %d: %s", e.path, e.status, cut(string(e.reply), 200))
}

func getJSON(ctx context.Context, get sweep.Getter, path string, into any) error {
	reply, err := getOK(ctx, get, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
