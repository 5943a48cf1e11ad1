package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// Time limits of one probe each. A server that does not answer one of them is asked again.
const (
	healthTimeout = 25 * time.Second // SGLang answers after up to 20 s, by a request of its own
	askTimeout    = 15 * time.Second
	probeTimeout  = 3 * time.Minute // the first generation may compile kernels
	maxReply      = 16 << 20
)

// The generation that proves a server: so many prompt tokens, and more than one token back so that a decode step runs.
const (
	probeInput  = 32
	probeOutput = 2
)

// wrongName is how often in a row our own server may name another model before that is how the start ended.
const wrongName = 5

// prove waits until our server answers as asked, by ever dearer questions. A ready line in the log proves
// nothing: another server on the port may have been the one that answered. It returns nil when proved, and
// an ending when it never will be; the end of ctx ends it.
func (l *launch) prove(ctx context.Context) *sweep.Ending {
	wrong := 0
	for pause := 20 * time.Millisecond; ctx.Err() == nil; pause = min(pause*5/4, 500*time.Millisecond) {
		sleep(ctx, pause)
		ours, holder, err := l.server.Listening(l.port)
		if err == nil && !ours {
			l.unprovedAs("it does not listen on its port %d", l.port)
		}
		if err == nil && !ours && holder != "" {
			return &sweep.Ending{Outcome: sweep.BusyPort, Phase: sweep.PhaseReady,
				Detail: fmt.Sprintf("port %d belongs to this launch but %s listens there", l.port, holder)}
		}
		if !ours {
			continue
		}
		if said := l.answer(ctx, l.engine.Health, healthTimeout); said != "" {
			l.unprovedAs("GET %s %s", l.engine.Health, said)
			continue
		}
		named, other := l.named(ctx)
		if !named {
			if other == "" {
				l.unprovedAs("GET %s did not answer with a list of models", l.engine.Models)
				continue
			}
			if wrong++; wrong >= wrongName {
				return &sweep.Ending{Outcome: sweep.CrashStart, Phase: sweep.PhaseReady, Cause: "unknown",
					Detail: fmt.Sprintf("the server names its model %s, not %s as it was told: the command must pass on the flags that sweep adds", other, l.served)}
			}
			continue
		}
		if done, ending := l.generates(ctx); done {
			return ending
		}
	}
	return nil
}

// generates asks for one short generation. done is false when it is worth asking again.
func (l *launch) generates(ctx context.Context) (done bool, ending *sweep.Ending) {
	if l.engine.Vocabulary != nil && l.vocab == nil {
		vocab, err := l.agent.vocabulary(ctx, l.engine, l.get(), l.job.Model)
		if err != nil {
			l.unprovedAs("its vocabulary cannot be read: %v", err)
			return false, nil
		}
		l.vocab = vocab
	}
	spec := l.spec()
	spec.Salt = l.salt("ready")
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := loadgen.Probe(ctx, spec, loadgen.Ask{Input: probeInput, Output: probeOutput})
	if err != nil || !answer.OK || answer.OutputTokens < 1 {
		switch {
		case answer.Reason != "":
			l.unprovedAs("a generation by POST %s failed: %s", l.engine.Generate, answer.Reason)
		case err != nil:
			l.unprovedAs("a generation by POST %s failed: %v", l.engine.Generate, err)
		default:
			l.unprovedAs("a generation by POST %s gave no token", l.engine.Generate)
		}
		return false, nil
	}
	if len(l.vocab) == 0 || answer.PromptTokens < 0 || answer.PromptTokens == probeInput {
		return true, nil
	}
	return true, &sweep.Ending{Outcome: sweep.CrashStart, Phase: sweep.PhaseReady, Cause: "unknown",
		Detail: fmt.Sprintf("a prompt of %d token ids counted as %d at the server: lengths would not be what the grid asks for", probeInput, answer.PromptTokens)}
}

// salt makes the prompts of one use unlike those of every other.
func (l *launch) salt(use string) string {
	return fmt.Sprintf("%s/%s/%d/%s", l.job.Night, l.job.ID, l.attempt, use)
}

// unprovedAs keeps what is missing for the proof that the server serves, and says it once.
func (l *launch) unprovedAs(format string, args ...any) {
	text := sweep.Printable(fmt.Sprintf(format, args...))
	if old := l.unproved.Swap(&text); old == nil || *old != text {
		l.log.Debug("not ready", "why", text)
	}
}

// whyUnproved is what was missing last; "" when nothing was asked yet.
func (l *launch) whyUnproved() string {
	if text := l.unproved.Load(); text != nil {
		return "when last asked, " + *text
	}
	return ""
}

// answer is "" when the server answers 200, else what it did instead.
func (l *launch) answer(ctx context.Context, path string, limit time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch status, _, err := l.get()(ctx, http.MethodGet, path, nil); {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("did not answer within %s", limit)
	case err != nil:
		return fmt.Sprintf("failed: %v", err)
	case status != http.StatusOK:
		return fmt.Sprintf("answered %d", status)
	}
	return ""
}

// named reports whether the server lists our name for its model; other is what it lists instead.
func (l *launch) named(ctx context.Context) (ours bool, other string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, body, err := l.get()(ctx, http.MethodGet, l.engine.Models, nil)
	if err != nil || status != http.StatusOK {
		return false, ""
	}
	quoted, _ := json.Marshal(l.served)
	if bytes.Contains(body, quoted) {
		return true, ""
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) == nil && len(list.Data) > 0 {
		return false, sweep.Printable(list.Data[0].ID)
	}
	return false, sweep.Printable(string(body[:min(len(body), 100)]))
}

// get asks the server. Each question has its own connection: servers close idle ones at any time.
func (l *launch) get() sweep.Getter {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	base := l.base()
	return func(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
		var reader io.Reader
		if body != nil {
			reader = bytes.NewReader(body)
		}
		req, err := http.NewRequestWithContext(ctx, method, base+path, reader)
		if err != nil {
			return 0, nil, err
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		for name, value := range l.header() {
			req.Header.Set(name, value)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
		return resp.StatusCode, reply, err
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// greet asks a ready server what it is, and writes what is known by now for a record to stand on even if
// nobody is left to write launch.json.
func (l *launch) greet(ctx context.Context) error {
	var in sweep.Inspection
	if l.engine.Inspect != nil {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		var err error
		if in, err = l.engine.Inspect(ask, l.get()); err != nil {
			l.note("the server did not say what it runs with: " + sweep.Printable(err.Error()))
		}
	}
	l.result.EngineVersion, l.firstCounted = in.Version, in.FirstTokensCounted
	l.note(in.Notes...)
	l.note(in.Differences(l.job.Config.Settings)...)
	l.note(in.Mislabelled(l.job.Config.Axes)...)
	facts, notes := sweep.Values{}, []string(nil)
	if l.book != nil {
		facts, notes = l.book.said()
	}
	if l.attached() {
		l.result.Effective = in.Effective
	}
	maps.Copy(facts, in.Facts)
	maps.Copy(facts, l.memory.taken(ctx))
	l.result.Facts = l.withForecast(facts)
	l.hostTier = hostTier(in, facts, l.job.Config.Settings)
	l.note(l.askOutputs(ctx, askedReady)...)
	ready := l.result
	ready.Notes = slices.Concat(ready.Notes, notes)
	ready.Times = l.clock.times(time.Now())
	delete(ready.Times, "harness_s") // it still grows
	maps.Copy(ready.Times, phaseTimes(ready.Phases))
	if err := writeJSON(filepath.Join(l.dir, sweep.ReadyFile), ready); err != nil {
		return err
	}
	return l.emit(sweep.Event{Kind: sweep.EventReady, Phase: sweep.PhaseReady, Text: l.readyText()})
}

func (l *launch) readyText() string {
	parts := []string{fmt.Sprintf("ready after %.1f s", l.clock.start.Seconds())}
	if v, ok := l.result.Facts["kv_tokens"]; ok {
		parts = append(parts, fmt.Sprintf("%.0f KV tokens", v))
	}
	if v, ok := l.result.Facts["headroom_gib"]; ok {
		parts = append(parts, fmt.Sprintf("%.2f GiB headroom", v))
	}
	return strings.Join(parts, " · ")
}
