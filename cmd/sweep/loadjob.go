package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"sweep/loadgen"
	"sweep/sweep"
)

// loadJob is one load as it will be run.
type loadJob struct {
	spec      loadgen.Spec
	processes int

	at      time.Time // when it began
	result  loadgen.Result
	err     error // why it did not come to its end
	stopped bool  // by a signal
}

// defaultDuration is how long is measured when neither a time nor a number of requests is given.
const defaultDuration = 30 * time.Second

// endless bounds a run whose end is a number of requests.
const endless = 7 * 24 * time.Hour

// newLoadJob makes the job out of the flags, and says all that is wrong with them.
func newLoadJob(env *environ, f *loadFlags) (*loadJob, error) {
	j := &loadJob{processes: f.processes}
	s := &j.spec
	s.URL, s.Model, s.Seed, s.Salt = strings.TrimSuffix(f.url, "/"), f.model, f.seed, f.salt
	s.RequestTimeout, s.Stall = f.timeout, f.stall
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	check(checkURL(f.url))
	w, err := workloadOf(env, f)
	check(err)
	if w.API != "" && !f.apiGiven {
		f.api = w.API
	}
	s.Route, err = loadgen.Route(f.api)
	check(err)
	s.Client = map[string]string{"fast": loadgen.ClientEpoll, "net-conn": loadgen.ClientConn, "net-http": loadgen.ClientHTTP}[f.path]
	if f.stamps != "auto" {
		s.Stamps = f.stamps
	}
	if f.insecure {
		s.TLS = &tls.Config{InsecureSkipVerify: true} // the user's own word
	}
	check(j.readHeaders(env, f))
	check(j.readBody(f, w.Body))
	check(j.readIDs(f.ids))
	check(j.readClasses(f, w))
	check(j.readEnd(f))
	switch {
	case f.processes < 1 || f.processes > 1024:
		check(fmt.Errorf("--processes %d: want 1 to 1024", f.processes))
	case f.part >= f.processes:
		check(fmt.Errorf("--part %d: there are only %d", f.part, f.processes))
	case f.part >= 0:
		s.Part, s.Parts = f.part, f.processes
	}
	if s.Salt == "" {
		s.Salt = rand.Text()[:12]
	}
	return j, errors.Join(errs...)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("--url is missing: which server? For example --url http://127.0.0.1:30000")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--url %q: want http://HOST:PORT or https://HOST", text)
	case u.User != nil:
		return errors.New("--url holds a password, which would stand in files: name it with --header or --api-key")
	}
	return nil
}

// readHeaders takes the values of headers from the environment.
func (j *loadJob) readHeaders(env *environ, f *loadFlags) error {
	h := map[string]string{}
	var errs []error
	for _, text := range f.headers {
		name, variable, ok := strings.Cut(text, "=")
		if !ok || name == "" || variable == "" {
			errs = append(errs, fmt.Errorf("--header %q: want NAME=VARIABLE, the name of an environment variable", text))
			continue
		}
		if h[name] = env.Getenv(variable); h[name] == "" {
			errs = append(errs, fmt.Errorf("--header %s: the environment variable %s is empty", name, variable))
		}
	}
	if f.apiKey != "" {
		key := env.Getenv(f.apiKey)
		if key == "" {
			errs = append(errs, errors.New("--api-key names an environment variable, and it is empty")) // the word may be the key itself: it is not repeated
		}
		h["Authorization"] = "Bearer " + key
	}
	j.spec.Header = h
	return errors.Join(errs...)
}

// readBody joins the fields that make lengths exact with a workload's and the user's own.
func (j *loadJob) readBody(f *loadFlags, own map[string]any) error {
	body := map[string]any{}
	forced := map[string]any{"temperature": 0, "ignore_eos": true}
	switch {
	case f.natural:
	case f.api == "generate":
		body["sampling_params"] = forced
	default:
		maps.Copy(body, forced)
	}
	if sampling, ok := own["sampling_params"].(map[string]any); ok && f.api == "generate" && !f.natural {
		maps.Copy(forced, sampling)
		own = maps.Clone(own)
		own["sampling_params"] = forced
	}
	maps.Copy(body, own)
	if f.body != "" {
		var extra map[string]any
		if err := json.Unmarshal([]byte(f.body), &extra); err != nil {
			return fmt.Errorf("--body: no JSON object: %w", err)
		}
		maps.Copy(body, extra)
	}
	j.spec.Body = body
	return nil
}

func (j *loadJob) readIDs(text string) error {
	if text == "" {
		return nil
	}
	r, err := readRange("--token-ids", text)
	if err != nil {
		return err
	}
	if r.Max-r.Min > 1<<20 {
		return fmt.Errorf("--token-ids %s: no vocabulary is so large", text)
	}
	for id := r.Min; id <= r.Max; id++ {
		j.spec.Vocabulary = append(j.spec.Vocabulary, id)
	}
	j.spec.Exact = true
	return nil
}

// readRange reads 512 or 80..240.
func readRange(flag, text string) (loadgen.Range, error) {
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		high = low
	}
	from, err1 := strconv.Atoi(low)
	to, err2 := strconv.Atoi(high)
	if err1 != nil || err2 != nil || from < 1 || to < from {
		return loadgen.Range{}, fmt.Errorf("%s %q: want a whole number above zero, or a range such as 80..240", flag, text)
	}
	return loadgen.Range{Min: from, Max: to}, nil
}

// readClasses makes the classes of requests.
func (j *loadJob) readClasses(f *loadFlags, w sweep.Workload) error {
	if f.workload != "" {
		return j.readWorkload(f, w)
	}
	input, err1 := readRange("--input", f.input)
	output, err2 := readRange("--output", f.output)
	c := loadgen.Class{Name: "load", Input: input, Output: output, Natural: f.natural}
	err := readShape(f, &c)
	var err3 error
	c.Concurrency, c.Arrivals, err3 = readLevel(f)
	err4 := readFile("--prompts", f.prompts, func(r io.Reader) (err error) {
		c.Prompts, err = loadgen.ReadPrompts(r)
		return err
	})
	j.spec.Classes = []loadgen.Class{c}
	return errors.Join(err1, err2, err, err3, err4)
}

// readShape reads what prompts have in common.
func readShape(f *loadFlags, c *loadgen.Class) (err error) {
	if f.prefix != "" {
		groups, tokens, _ := strings.Cut(f.prefix, "x")
		n, err1 := strconv.Atoi(groups)
		size, err2 := strconv.Atoi(tokens)
		if err1 != nil || err2 != nil || n < 1 || size < 1 {
			err = fmt.Errorf("--prefix %q: want GROUPSxTOKENS, such as 8x1024", f.prefix)
		}
		c.Prefix = &loadgen.Prefix{Groups: n, Tokens: size}
	}
	if f.turns == "" {
		if f.think != 0 {
			err = errors.Join(err, errors.New("--think is of conversations: say --turns"))
		}
		return err
	}
	turns, terr := readRange("--turns", f.turns)
	c.Session = &loadgen.Session{Turns: turns, Input: c.Input, Think: f.think}
	if f.concurrency == "" || f.think < 0 {
		terr = errors.Join(terr, errors.New("conversations (--turns) want a --concurrency, of users, and a --think not below zero"))
	}
	return errors.Join(err, terr)
}

// readStages reads 30s:1..20,1m:20.
func readStages(text string) ([]loadgen.Stage, error) {
	var list []loadgen.Stage
	for part := range strings.SplitSeq(text, ",") {
		length, rates, _ := strings.Cut(part, ":")
		from, to, ramp := strings.Cut(rates, "..")
		if !ramp {
			to = from
		}
		d, err1 := time.ParseDuration(length)
		low, err2 := strconv.ParseFloat(from, 64)
		high, err3 := strconv.ParseFloat(to, 64)
		if err := errors.Join(err1, err2, err3); err != nil || d <= 0 || low < 0 || high < 0 {
			return nil, fmt.Errorf("--stages %q: want TIME:RATE or TIME:FROM..TO, such as 30s:1..20,1m:20", text)
		}
		list = append(list, loadgen.Stage{For: d, From: low, To: high})
	}
	return list, nil
}

// readLevel reads at which level one class is held.
func readLevel(f *loadFlags) (concurrency int, arrivals *loadgen.Arrivals, err error) {
	given := 0
	for _, is := range []bool{f.concurrency != "", f.rate != 0, f.stages != "", f.trace != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return 0, nil, errors.New("just one of --concurrency, --rate, --stages and --trace says how much load it is to be")
	}
	switch {
	case f.concurrency != "":
		concurrency, err = strconv.Atoi(f.concurrency)
		if err != nil || concurrency < 1 {
			err = fmt.Errorf("--concurrency %q: want a whole number above zero", f.concurrency)
		}
		return concurrency, nil, err
	case f.trace != "":
		arrivals = &loadgen.Arrivals{Law: loadgen.Trace, MaxOpen: f.maxOpen}
		err = readFile("--trace", f.trace, func(r io.Reader) (err error) {
			arrivals.Requests, err = loadgen.ReadTrace(r)
			return err
		})
		return 0, arrivals, err
	}
	if f.arrivals == loadgen.Gamma && f.shape <= 0 {
		err = errors.New("gamma arrivals want a --shape above zero")
	}
	arrivals = &loadgen.Arrivals{Law: f.arrivals, Rate: f.rate, Shape: f.shape, MaxOpen: f.maxOpen}
	if f.stages != "" {
		var serr error
		arrivals.Stages, serr = readStages(f.stages)
		err = errors.Join(err, serr)
	}
	return 0, arrivals, err
}

// readFile reads a flag's file, when it is given.
func readFile(flag, path string, read func(io.Reader) error) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	if err := read(file); err != nil {
		return fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return nil
}

// readEnd says when the run is warm and when it is over.
func (j *loadJob) readEnd(f *loadFlags) error {
	s := &j.spec
	if f.duration < 0 || f.warmup < 0 {
		return errors.New("--duration and --warmup cannot be negative")
	}
	s.Warmup.Time = f.warmup
	if f.precision != 0 && (!(f.precision > 0 && f.precision < 1) || f.requests != "" || f.processes > 1) {
		return errors.New("--precision wants a share such as 0.02, and goes with --duration in one process")
	}
	if f.requests == "" {
		if f.duration == 0 {
			f.duration = defaultDuration
		}
		s.Window = loadgen.Window{Min: f.duration, Max: f.duration}
		if s.Window.Precision = f.precision; f.precision != 0 {
			s.Window.Min = f.duration / 10
		}
		switch {
		case f.warmupGiven:
		case f.processes > 1: // what processes agree on is a time
			s.Warmup.Time = f.duration / 5
		default:
			s.Warmup.Cohort = true
		}
		return nil
	}
	s.Window = loadgen.Window{Max: f.duration, Exactly: true, Requests: map[string]int{}}
	if f.duration == 0 {
		s.Window.Max = endless
	}
	w := sweep.Workload{Name: f.workload}
	for _, c := range s.Classes {
		w.Classes = append(w.Classes, sweep.Class{Name: c.Name, Share: max(1, c.Concurrency)})
	}
	if len(w.Classes) == 0 {
		return nil // what is wrong with them is said already
	}
	var err error
	if s.Window.Requests, err = readLevels("--requests", f.requests, w); err != nil && f.workload == "" {
		return fmt.Errorf("--requests %q: want a whole number above zero", f.requests)
	}
	return err
}

func (j *loadJob) needsModel() bool { return strings.HasPrefix(j.spec.Route, "/v1/") }

// askModel asks the server for the only model that it serves.
func (j *loadJob) askModel(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.spec.URL+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	for name, value := range j.spec.Header {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: j.spec.TLS.Clone()}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", fmt.Errorf("the server does not say which models it has: %w; name one with --model", err)
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server does not say which models it has (HTTP %d): name one with --model", resp.StatusCode)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("the server lists %s (%s): name one with --model", plural(len(names), "model"), strings.Join(names, ", "))
	}
	return names[0], nil
}
