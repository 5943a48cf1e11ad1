package simulate

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// logger writes SGLang's log: one write for each line, so that lines of several goroutines never mix.
type logger struct {
	mu sync.Mutex
	w  io.Writer
	tp int
}

func stamp() string { return time.Now().Format("2006-01-02 15:04:05") }

func (l *logger) raw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text) // a reader that is gone must not stop the server
}

// main writes a line of the launched process.
func (l *logger) main(format string, a ...any) {
	l.raw("[" + stamp() + "] " + fmt.Sprintf(format, a...) + "\n")
}

// rank writes a line of one scheduler; its rank is shown when there are several.
func (l *logger) rank(rank int, format string, a ...any) {
	l.raw(l.rankPrefix(rank) + fmt.Sprintf(format, a...) + "\n")
}

func (l *logger) rankPrefix(rank int) string {
	if l.tp == 1 {
		return "[" + stamp() + "] "
	}
	return fmt.Sprintf("[%s TP%d] ", stamp(), rank)
}

// ranks writes the same line for each scheduler.
func (l *logger) ranks(format string, a ...any) {
	for i := range l.tp {
		l.rank(i, format, a...)
	}
}

// bar is a tqdm progress bar: it returns to the start of its line and leaves the rest to the terminal.
type bar struct {
	log     *logger
	total   int
	began   time.Time
	printed time.Time
	text    func(done int, percent string, tail string) string
}

// barInterval is how often tqdm draws at most.
const barInterval = 100 * time.Millisecond

func (l *logger) shardBar(total int) *bar {
	return &bar{log: l, total: total, began: time.Now(), text: func(_ int, percent, tail string) string {
		return "\rLoading safetensors checkpoint shards: " + percent + " Completed | " + tail
	}}
}

// show draws the bar with done of total; the first and the last are always drawn.
func (b *bar) show(done int) {
	now := time.Now()
	if done > 0 && done < b.total && now.Sub(b.printed) < barInterval {
		return
	}
	b.printed = now
	end := ""
	if done == b.total {
		end = "\n"
	}
	b.log.raw(b.text(done, fmt.Sprintf("%3d%%", done*100/max(1, b.total)), b.tail(done, now.Sub(b.began))) + end)
}

// tail is "i/n [elapsed<left, rate]".
func (b *bar) tail(done int, elapsed time.Duration) string {
	if done == 0 {
		return fmt.Sprintf("0/%d [00:00<?, ?it/s]", b.total)
	}
	rate := float64(done) / max(1e-6, elapsed.Seconds())
	left := time.Duration(float64(b.total-done) / rate * float64(time.Second))
	speed := fmt.Sprintf("%5.2fit/s", rate)
	if rate < 1 {
		speed = fmt.Sprintf("%5.2fs/it", 1/rate)
	}
	return fmt.Sprintf("%d/%d [%s<%s, %s]", done, b.total, clockText(elapsed), clockText(left), speed)
}

func clockText(d time.Duration) string {
	s := int(d.Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// captureBar is the bar of graph capture: what is captured stands in front.
func (l *logger) captureBar(total int, label func(done int) string) *bar {
	return &bar{log: l, total: total, began: time.Now(), text: func(done int, percent, tail string) string {
		const width = 10
		filled := done * width / max(1, total)
		picture := strings.Repeat("█", filled) + strings.Repeat(" ", width-filled)
		return "\r" + label(done) + ": " + percent + "|" + picture + "| " + tail
	}}
}

func gibText(bytes int64) string { return fmt.Sprintf("%.2f", float64(bytes)/gib) }

// prefillLine is the line that each prefill step writes.
func prefillLine(s prefillStats) string {
	return fmt.Sprintf("Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, #running-req: %d, #queue-req: %d, #pending-token: %d, cuda graph: %s, input throughput (token/s): %.2f",
		s.newSeq, s.newTokens, s.cachedTokens, s.usage, s.running, s.queued, s.pending, pyBool(s.graph), s.throughput)
}

// decodeLine is the line that each interval of decode steps writes.
func decodeLine(s decodeStats) string {
	return fmt.Sprintf("Decode batch, #running-req: %d, #token: %d, token usage: %.2f, cuda graph: %s, gen throughput (token/s): %.2f, #queue-req: %d",
		s.running, s.tokens, s.usage, pyBool(s.graph), s.throughput, s.queued)
}

// retractLine is the warning that requests were pushed out of the batch.
func retractLine(s retractStats) string {
	return fmt.Sprintf("KV cache pool is full. Retract requests. #retracted_reqs: %d, #new_tokens_gained: %d, #new_token_ratio: %.4f -> %.4f",
		s.requests, s.gained, s.from, s.to)
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
