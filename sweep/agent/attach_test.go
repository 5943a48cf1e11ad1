//go:build linux

package agent

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep/sweep"
	"sweep/sweep/proc"
)

// somebodys starts a server that is none of sweep's, and returns its URL. It ends with the test.
func somebodys(t *testing.T, self, how, name string, more ...string) (url string, cmd *exec.Cmd) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, append([]string{"serve", "-port", fmt.Sprint(port), "-name", name, "-how", how}, more...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be over
		_ = cmd.Wait()
	})
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if resp, err := http.Get(url + "/health"); err == nil {
			resp.Body.Close()
			return url, cmd
		}
	}
	t.Fatal("the server does not come up")
	return "", nil
}

// A server that somebody else runs is measured as any other, and left as it was found.
func TestAttached(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprintf("flush %v", flush), func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			url, cmd := somebodys(t, n.opt.Self, "ready", "their-model")
			before, err := proc.Identify(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			flushed := 0
			flushes := n.engine.Flush
			e := *n.engine
			if flushes == nil {
				t.Fatal("the test's engine cannot flush")
			}
			e.Flush = func(ctx context.Context, get sweep.Getter) error { flushed++; return flushes(ctx, get) }
			n.engine = &e
			job := n.job("theirs", "a@1", "a@3")
			job.Attach, job.Flush, job.Command, job.Config.Settings = url, flush, nil, nil
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			results := n.launches(job)
			if got, want := endings(results), "a@1=ok a@3=ok"; got != want {
				t.Fatalf("endings %s, want %s", got, want)
			}
			if r := results[0]; r.Attached != url || r.Outcome != sweep.OK || len(r.Argv) > 0 || r.EngineVersion != "1.0" || !strings.Contains(strings.Join(r.Notes, "\n"), "their-model") {
				t.Errorf("%+v", r)
			}
			if (flushed > 0) != flush {
				t.Errorf("flushed %d times, asked %v", flushed, flush)
			}
			if !before.Alive() {
				t.Error("the server does not live any more")
			}
			dir := filepath.Join(n.opt.Out, job.Dir(1))
			for _, name := range []string{"owner.json", "server.log", "command.sh"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					t.Errorf("%s of a server that was not started", name)
				}
			}
			var run sweep.LoadResult
			if err := readJSON(filepath.Join(dir, job.Loads[1].Dir(), "run.json"), &run); err != nil || run.Values["output_throughput"] <= 0 || run.Values["running"] <= 0 {
				t.Errorf("%v: %v", err, run.Values)
			}
			if rec := readRecord(t, filepath.Join(dir, job.Loads[1].Dir()), nil); rec.Requests == 0 || rec.End == nil {
				t.Errorf("%+v", rec)
			}
		})
	}
}

// A server that asks for a key gets the one of the environment, which reaches no file; without it nothing is sent.
func TestAttachedWithKey(t *testing.T) {
	t.Parallel()
	const secret = "sk-canary-7f3a91"
	for name, c := range map[string]struct {
		environ, want, detail string
	}{
		"right": {"LLM_KEY=" + secret, "a@1=ok", ""},
		"none":  {"OTHER=x", "a@1=infra.lost… | a@1=infra.lost… | a@1=infra.lost", "the environment variable LLM_KEY, which attach_key names, is not set here"},
		"wrong": {"LLM_KEY=sk-canary-wrong", "a@1=infra.lost… | a@1=infra.lost… | a@1=infra.lost", "it asks for another API key; attach_key names"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			if name == "wrong" {
				n.opt.DyingTime = 3 * time.Second // it is waited out, and the server has to answer within it
			}
			n.opt.Environ = append(os.Environ(), c.environ)
			url, _ := somebodys(t, n.opt.Self, "ready", "their-model", "-key", secret)
			job := n.job("theirs", "a@1")
			job.Attach, job.AttachKey, job.Command, job.Config.Settings = url, "LLM_KEY", nil, nil
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			results := n.launches(job)
			if got := endings(results); got != c.want || !strings.Contains(results[0].Loads[0].Detail, c.detail) {
				t.Fatalf("endings %s, want %s: %+v", got, c.want, results[0])
			}
			err := filepath.WalkDir(n.opt.Out, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				if strings.Contains(string(b), "sk-canary") {
					t.Errorf("the key stands in %s", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			s := Survey{Self: n.opt.Self, Engine: n.engine, Out: t.TempDir(), Environ: n.opt.Environ}
			if found := s.Look(t.Context(), []sweep.Job{job}); len(found) < 1 || found[0].Blocks == (name == "right") {
				t.Errorf("survey %+v", found)
			}
		})
	}
}

// An attached server that goes away is an outcome of the load that met it; the next one finds nobody.
func TestAttachedServerGoesAway(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.opt.DyingTime = 3 * time.Second
	url, _ := somebodys(t, n.opt.Self, "crash-under-load", "their-model")
	job := n.job("theirs", "a@1", "a@4", "b@2")
	job.Attach, job.Command, job.Config.Settings = url, nil, nil
	n.submit(job)
	if err := n.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := n.launches(job)
	if got, want := endings(results[:2]), "a@1=ok a@4=crash.load… b@2=… | a@4=infra.lost… b@2=infra.lost…"; got != want {
		t.Fatalf("endings %s, want %s", endings(results), want)
	}
	if l := results[0].Loads[1]; !strings.Contains(l.Detail, url+", which somebody else runs, went away") {
		t.Errorf("detail %q", l.Detail)
	}
	last := results[len(results)-1]
	if l := last.Loads[0]; l.State != stateDone || l.Outcome != sweep.InfraLost || !strings.Contains(l.Detail, "does not answer as asked") {
		t.Errorf("last: %+v", l)
	}
}

// A survey of an attached server says whether it is there, and asks it for no token.
func TestSurveyOfAttached(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	url, cmd := somebodys(t, n.opt.Self, "ready", "m")
	s := Survey{Self: n.opt.Self, Engine: n.engine, Out: t.TempDir()}
	job := n.job("theirs", "a@1")
	job.Attach = url
	found := s.Look(t.Context(), []sweep.Job{job})
	if len(found) < 1 || found[0].Check != CheckAttached || found[0].Level != sweep.LevelOK || !strings.Contains(found[0].Text, "serves m") {
		t.Errorf("%+v", found)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	found = s.Look(t.Context(), []sweep.Job{job})
	if found[0].Level != sweep.LevelMissing || !found[0].Blocks || !strings.Contains(found[0].Text, "GET /health failed") {
		t.Errorf("%+v", found)
	}
}
