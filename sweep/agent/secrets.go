package agent

import (
	"context"
	"fmt"
	"log/slog"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// What a server says over HTTP does not pass its supervisor, which blanks out secrets in the log. So every text
// that may hold its words is cleaned where it is written.

// clean is a text without the launch's secrets and what looks like one.
func (l *launch) clean(text string) string { return proc.Redact(text, l.env.Secrets) }

// cleanAll cleans notes in place.
func (l *launch) cleanAll(notes []string) {
	for i := range notes {
		notes[i] = l.clean(notes[i])
	}
}

// cleaned is an ending whose words are clean.
func (l *launch) cleaned(e sweep.Ending) sweep.Ending {
	e.Detail = l.clean(e.Detail)
	if e.Evidence != nil {
		evidence := *e.Evidence
		evidence.Text = l.clean(evidence.Text)
		e.Evidence = &evidence
	}
	return e
}

// cleanHandler cleans what a launch logs.
type cleanHandler struct {
	slog.Handler
	clean func(string) string
}

// Handle implements [slog.Handler].
func (h cleanHandler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.clean(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// attr cleans what is text or becomes text; groups are not used here.
func (h cleanHandler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.clean(v.String()))
	case slog.KindAny:
		return slog.String(a.Key, h.clean(fmt.Sprint(v.Any())))
	}
	return a
}

// WithAttrs implements [slog.Handler].
func (h cleanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	cleaned := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cleaned[i] = h.attr(a)
	}
	return cleanHandler{h.Handler.WithAttrs(cleaned), h.clean}
}

// WithGroup implements [slog.Handler].
func (h cleanHandler) WithGroup(name string) slog.Handler {
	return cleanHandler{h.Handler.WithGroup(name), h.clean}
}
