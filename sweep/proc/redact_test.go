package proc

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

const canary = `Kx9/canary-"71'\+z=Q`

func TestRedact(t *testing.T) {
	secrets := []string{canary, "line one of a key that is long\nline two of a key that is long", "short", "abcdef", "defghi", "abcdefgh0"}
	tests := []struct{ in, want string }{
		{"nothing here\n", "nothing here\n"},
		{canary, "[redacted]"},
		{"x" + canary + "y", "x[redacted]y"},
		{"q=" + "Kx9%2Fcanary-%2271%27%5C%2Bz%3DQ&n=1", "q=[redacted]&n=1"},
		{`{"k":"Kx9/canary-\"71'\\+z=Q"}`, `{"k":"[redacted]"}`},
		{"line two of a key that is long", "[redacted]"},
		{"short", "short"},
		{"abcdefghi!", "[redacted]!"}, // two secrets that overlap
		{"abcdefgh1", "[redacted]gh1"},
		{"abcdefgh0", "[redacted]"},
		{"server_args=ServerArgs(model_path='m', api_key='sesame', admin_api_key=None, x=1)", "server_args=ServerArgs(model_path='m', api_key='[redacted]', admin_api_key=None, x=1)"},
		{"['serve', '--api-key', 'se,sa me', '--port', '1']", "['serve', '--api-key', '[redacted]', '--port', '1']"},
		{"llama-server --api-key sesame --port 1", "llama-server --api-key [redacted] --port 1"},
		{"--api-key=sesame --port 1", "--api-key=[redacted] --port 1"},
		{`{"api_key": "ses\"ame", "n": 1}`, `{"api_key": "[redacted]", "n": 1}`},
		{`"{\"api_key\": \"sesame\", \"n\": 1}"`, `"{\"api_key\": \"[redacted]\", \"n\": 1}"`},
		{"OPENAI_API_KEY=sesame\n", "OPENAI_API_KEY=[redacted]\n"},
		{"api_key='open to the end\nnext line", "api_key='[redacted]\nnext line"},
		{"api_key: null, api_key='', api_key=\n", "api_key: null, api_key='', api_key=\n"},
		{"api_key=Nonesuch", "api_key=[redacted]"},
		{"Authorization: Bearer abc.def-ghi_jkl==, x", "Authorization: Bearer [redacted], x"},
		{"bearer of news", "bearer of news"},
		{"hf_ABCDEFGHIJKLMNOPQR done", "hf_[redacted] done"},
		{"hf_short shf_ABCDEFGHIJKLMNOPQR", "hf_short shf_ABCDEFGHIJKLMNOPQR"},
		{"sk-proj-0123456789abcdef\ttask-0123456789qrstuvwx", "sk-[redacted]\ttask-0123456789qrstuvwx"},
		{"http://user:pass@host:1/x", "http://user:[redacted]@host:1/x"},
		{"http://127.0.0.1:30000/x @y", "http://127.0.0.1:30000/x @y"},
		{"#new-token: 812, token usage: 0.85, max_total_num_tokens=116171", "#new-token: 812, token usage: 0.85, max_total_num_tokens=116171"},
		{"hf_token=abcdxyz end", "hf_token=[redacted] end"},
		{"ends with " + canary[:8], "ends with [redacted]"}, // the server died while it wrote a secret
	}
	for _, tt := range tests {
		if got := Redact(tt.in, secrets); got != tt.want {
			t.Errorf("Redact(%q)\n got %q\nwant %q", tt.in, got, tt.want)
		}
		for cut := range len(tt.in) {
			if got := redactIn(t, secrets, tt.in[:cut], tt.in[cut:]); got != tt.want {
				t.Errorf("cut at %d of %q\n got %q\nwant %q", cut, tt.in, got, tt.want)
			}
		}
		if got := redactIn(t, secrets, strings.Split(tt.in, "")...); got != tt.want {
			t.Errorf("byte by byte %q\n got %q\nwant %q", tt.in, got, tt.want)
		}
	}
}

// TestRedactHoldsLittle checks that a line is passed on at once, whatever may follow.
func TestRedactHoldsLittle(t *testing.T) {
	var b bytes.Buffer
	r := NewRedactor(&b, []string{canary, strings.Repeat("z", 300)})
	line := "The server is fired up and ready to roll!\n"
	if _, err := io.WriteString(r, line); err != nil {
		t.Fatal(err)
	}
	if b.String() != line {
		t.Errorf("passed on %q", b.String())
	}
	for range 100 {
		_, _ = io.WriteString(r, strings.Repeat("z", 299)+"://a:"+strings.Repeat("b", 90))
		if len(r.held) > 512 {
			t.Fatalf("%d bytes held back", len(r.held))
		}
	}
}

func redactIn(t *testing.T, secrets []string, parts ...string) string {
	t.Helper()
	var b strings.Builder
	r := NewRedactor(&b, secrets)
	for _, p := range parts {
		if n, err := io.WriteString(r, p); err != nil || n != len(p) {
			t.Fatal(n, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func FuzzRedact(f *testing.F) {
	f.Add("api_key='x y' "+canary+" hf_token=abcdefghijklmnopqrst ://u:p@", canary, 7)
	f.Add("aaaaaaaaaaaaaaaa", "aaaaaa", 3)
	f.Add(`\"api_key\": \"x\" Bearer  Bearer abcdefghij`, "Bearer abc", 2)
	f.Fuzz(func(t *testing.T, text, secret string, step int) {
		secrets := []string{secret, secret + "2"}
		whole := Redact(text, secrets)
		if step = step%17 + 1; step < 1 {
			step = 1
		}
		var parts []string
		for rest := text; len(rest) > 0; {
			n := min(step, len(rest))
			parts = append(parts, rest[:n])
			rest = rest[n:]
		}
		if got := redactIn(t, secrets, parts...); got != whole {
			t.Errorf("in steps of %d: %q\nat once: %q", step, got, whole)
		}
		// The mark itself may give a secret that holds a part of it.
		if s := strings.TrimSpace(secret); len(s) >= MinSecret && !strings.ContainsAny(s, "redact[]") && strings.Contains(whole, s) {
			t.Errorf("%q is still in %q", s, whole)
		}
	})
}

const logLine = "[2026-11-29 18:02:11 TP0] Decode batch, #running-req: 117, #token: 138461, token usage: 0.87, cuda graph: True, gen throughput (token/s): 1297.33, #queue-req: 30,\n"

// A server that logs faster than its log is read waits for us, and is measured slower than it is: what a burst
// costs must not grow with what is behind each byte of it.
func TestRedactCopiesNothing(t *testing.T) {
	for _, line := range []string{logLine, "see https://host/a:b, password\n", strings.Repeat("hf_s-", 40) + "\n", strings.Repeat("api_ke ", 30) + "\n"} {
		burst := []byte(strings.Repeat(line, 256<<10/len(line)))
		r := NewRedactor(io.Discard, []string{canary})
		n := testing.AllocsPerRun(3, func() {
			if _, err := r.Write(burst); err != nil {
				t.Fatal(err)
			}
		})
		if n > 20 {
			t.Errorf("%.30s…: %.0f allocations for a burst", line, n)
		}
	}
}

func BenchmarkRedactor(b *testing.B) {
	for name, write := range map[string][]byte{"line": []byte(logLine), "burst": []byte(strings.Repeat(logLine, 256<<10/len(logLine)))} {
		b.Run(name, func(b *testing.B) {
			r := NewRedactor(io.Discard, []string{canary, "hf_abcdefghijklmnopqrstuvwxyz"})
			b.SetBytes(int64(len(write)))
			for b.Loop() {
				_, _ = r.Write(write)
			}
		})
	}
}
