package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
)

// suspectMark begins the note of a server whose answers look wrong.
const suspectMark = "output_suspect: "

const (
	outputsFile  = "outputs.json" // in an attempt's folder: the answers; in the agent's: those of baselines
	outputTokens = 16             // of each answer
	earlyRunes   = 12             // an answer that differs so early is another one, whatever rounding does later
	manyOutputs  = 3              // of the five, that must look wrong: one may hang on a near tie
)

// The moments at which a server is asked.
const (
	askedReady   = "ready"   // before the first load
	askedPlanted = "planted" // just before the last load, so that a host's cache keeps the prompts through it
	askedAfter   = "after"   // after the last load
)

// fixedPrompts are the same for every config of every night. Each asks for what can hardly be answered in two
// ways, so that rounding does not decide; each fills a page of a prefix cache (64 tokens at the most) and is
// shorter than what loads ask, so that it brings no server down that its load would not.
func fixedPrompts() []string {
	var count strings.Builder
	for i := range 70 {
		fmt.Fprintf(&count, "%d, ", i+1)
	}
	return []string{
		strings.TrimSpace(count.String()),
		strings.Repeat("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, ", 4) + "Monday,",
		strings.Repeat("The quick brown fox jumps over the lazy dog. ", 6) + "The quick",
		strings.Repeat("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu ", 4) + "alpha beta",
		strings.Repeat("Question: What is the capital of France? Answer: Paris.\nQuestion: What is the capital of Italy? Answer: Rome.\n", 2) +
			"Question: What is the capital of France? Answer:",
	}
}

// outputs are a server's answers to the fixed prompts at one moment.
type outputs struct {
	Asked      string    `json:"asked"` // ready, planted or after
	At         time.Time `json:"at"`
	HostTokens *float64  `json:"cached_tokens_host,omitempty"` // prompt tokens found in the host's cache; absent where not counted
	Answers    []answer  `json:"answers"`
}

// answer is one answer, as text.
type answer struct {
	Text   string `json:"text"`
	Tokens int    `json:"tokens,omitempty"` // 0: the server did not say
	Error  string `json:"error,omitempty"`  // why there is none
}

// askOutputs asks the fixed prompts one after another, each alone on the server, and keeps the answers. It
// returns the notes that they are worth. A server that refuses or does not answer is judged elsewhere.
func (l *launch) askOutputs(ctx context.Context, asked string) []string {
	ctx, cancel := l.alive(ctx)
	defer cancel(nil)
	o := outputs{Asked: asked, At: time.Now()}
	before, known := l.hostHits(ctx)
	for _, prompt := range fixedPrompts() {
		a, err := l.askOnce(ctx, prompt)
		if err != nil {
			a.Error = sweep.Printable(l.clean(err.Error()))
		}
		o.Answers = append(o.Answers, a)
		if err != nil {
			break
		}
	}
	if after, ok := l.hostHits(ctx); ok && known {
		o.HostTokens = new(after - before)
	}
	l.outputs = append(l.outputs, o)
	if err := writeJSON(filepath.Join(l.dir, outputsFile), l.outputs); err != nil {
		l.log.Warn("the answers to the fixed prompts cannot be kept", "err", err)
	}
	return l.judgeOutputs(o)
}

func (l *launch) hostHits(ctx context.Context) (float64, bool) {
	if !l.hostTier || l.engine.Sample == nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	v, err := l.engine.Sample(ctx, l.get())
	hits, ok := v[sweep.SignalCachedHost]
	return hits, ok && err == nil
}

// askOnce asks one prompt and waits for the whole answer.
func (l *launch) askOnce(ctx context.Context, prompt string) (answer, error) {
	fields := maps.Clone(l.engine.Body)
	if fields == nil {
		fields = map[string]any{}
	}
	delete(fields, "stream_options") // servers refuse them without a stream
	maps.Copy(fields, map[string]any{"model": l.served, "prompt": prompt, "max_tokens": outputTokens, "stream": false, "temperature": 0})
	body, err := json.Marshal(fields)
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.limits.LoadStall)
	defer cancel()
	status, reply, err := l.get()(ctx, http.MethodPost, l.engine.Generate, body)
	if err != nil {
		return answer{}, err
	}
	var said struct {
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
		Usage struct {
			Tokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if status != http.StatusOK || json.Unmarshal(reply, &said) != nil || len(said.Choices) == 0 {
		return answer{}, fmt.Errorf("status %d: %.200s", status, reply)
	}
	return answer{Text: l.clean(said.Choices[0].Text), Tokens: said.Usage.Tokens}, nil
}

// judgeOutputs looks for answers that no healthy server gives. Random weights say nothing that can be judged.
func (l *launch) judgeOutputs(o outputs) []string {
	if format, _ := sweep.SettingValue(l.job.Config.Settings, "load-format"); strings.Contains(format, "dummy") {
		return nil
	}
	var notes []string
	wrong, example := 0, ""
	for _, a := range o.Answers {
		if a.Error == "" && degenerate(a) {
			wrong++
			example = a.Text
		}
	}
	if wrong >= manyOutputs {
		notes = append(notes, fmt.Sprintf("%s%d of %d greedy answers are empty or one token again and again (%s): %.60q", suspectMark, wrong, len(o.Answers), o.when(), example))
	}
	reference := l.agent.references.of(l.referenceKey())
	if reference == nil {
		if len(notes) == 0 && l.job.Config.Baseline && o.Asked == askedReady && len(o.Answers) == len(fixedPrompts()) {
			if err := l.agent.references.set(l.referenceKey(), o.Answers); err != nil {
				l.log.Warn("the baseline's answers cannot be kept", "err", err)
			}
		}
		return notes
	}
	differ, at := 0, -1
	for i, a := range o.Answers {
		if i < len(reference) && a.Error == "" && reference[i].Error == "" && early(a.Text) != early(reference[i].Text) {
			differ, at = differ+1, i
		}
	}
	if differ >= manyOutputs && len(notes) == 0 {
		notes = append(notes, fmt.Sprintf("%s%d of %d greedy answers differ from the baseline's in their first words (%s): %.40q, not %.40q",
			suspectMark, differ, len(o.Answers), o.when(), o.Answers[at].Text, reference[at].Text))
	}
	return notes
}

// when says for a person at which moment.
func (o outputs) when() string {
	when := map[string]string{askedReady: "before the first load", askedPlanted: "before the last load", askedAfter: "after the last load"}[o.Asked]
	if o.Asked == askedAfter && o.HostTokens != nil && *o.HostTokens > 0 {
		when += ", through the host's cache"
	}
	return when
}

// referenceKey names what must answer alike: a model under an engine.
func (l *launch) referenceKey() string { return l.job.Engine + "\n" + l.job.Model }

// degenerate reports an answer that is empty, or one short text repeated about as often as it has tokens.
func degenerate(a answer) bool {
	text := strings.TrimSpace(a.Text)
	if text == "" {
		return true
	}
	tokens := a.Tokens
	if tokens == 0 {
		tokens = outputTokens
	}
	if tokens < outputTokens/2 {
		return false // too short to tell
	}
	runes := []rune(a.Text)
	for period := 1; period*(tokens*3/4) <= len(runes); period++ {
		if repeats(runes, period) {
			return true
		}
	}
	return false
}

// repeats reports whether a text is one piece of this length again and again.
func repeats(text []rune, period int) bool {
	for i := period; i < len(text); i++ {
		if text[i] != text[i-period] {
			return false
		}
	}
	return true
}

func early(text string) string {
	runes := []rune(strings.TrimSpace(text))
	return string(runes[:min(len(runes), earlyRunes)])
}

// references keeps the baselines' answers, over restarts of the agent.
type references struct {
	path string
	all  map[string][]answer
}

func readReferences(path string) *references {
	r := &references{path: path, all: map[string][]answer{}}
	_ = readJSON(path, &r.all) // absent, or damaged: the next baseline is kept
	return r
}

func (r *references) of(key string) []answer { return r.all[key] }

func (r *references) set(key string, answers []answer) error {
	r.all[key] = slices.Clone(answers)
	return writeJSON(r.path, r.all)
}
