package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep/sweep"
	"sweep/sweep/gpu"
)

// attachTime is how long an attached server may take to answer as asked before it counts as not there.
const attachTime = 30 * time.Second

// attached says that the launch's server is run by somebody else: it is asked and loaded, and nothing else.
func (l *launch) attached() bool { return l.job.Attach != "" }

// header is what an attached server's requests carry: its API key, out of the environment and into nothing else.
func (l *launch) header() map[string]string {
	if l.key == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + l.key}
}

// takeKey reads the attached server's API key, if it asks for one. why: it is not there.
func (l *launch) takeKey(environ []string) (why string) {
	name := l.job.AttachKey
	if name == "" {
		return ""
	}
	if l.key = variable(environ, name); l.key == "" {
		return fmt.Sprintf("the environment variable %s, which attach_key names, is not set here", name)
	}
	l.env.Secrets = append(l.env.Secrets, l.key)
	return ""
}

// gone is closed when the server's process has ended; of an attached server that is never known.
func (l *launch) gone() <-chan struct{} {
	if l.server == nil {
		return nil
	}
	return l.server.Done()
}

// runAttached is run for a server that somebody else runs.
func (l *launch) runAttached(ctx context.Context) (sweep.LaunchResult, error) {
	l.result.Attached = l.job.Attach
	if err := l.attach(ctx); err != nil {
		return l.fail(ctx, err)
	}
	began := time.Now()
	ending := l.reach(ctx)
	l.clock.start += time.Since(began)
	if ending == nil {
		l.ready = true
		if err := l.greet(ctx); err != nil {
			l.closeAttached()
			return l.fail(ctx, err)
		}
		ends, over := l.loads(ctx)
		l.closeAttached()
		return l.finish(ctx, over, ends)
	}
	l.closeAttached()
	return l.finish(ctx, *ending, l.all(*ending))
}

// attach makes the launch's folder and files.
func (l *launch) attach(ctx context.Context) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(l.dir, "job.json"), l.job); err != nil {
		return err
	}
	if err := sweep.SyncDir(filepath.Dir(l.dir)); err != nil {
		return err
	}
	var err error
	if l.metrics, err = openLines(filepath.Join(l.dir, "metrics.jsonl")); err != nil {
		return err
	}
	if l.gpuLines, err = openLines(filepath.Join(l.dir, "gpu.jsonl")); err != nil {
		return err
	}
	l.watch = &gpuWatch{machine: l.machine, out: l.gpuLines} // never run: whose devices they are is not known
	l.others = newStrangers(l.machine, []gpu.Device(nil))
	_, l.quit = context.WithCancel(context.WithoutCancel(ctx))
	return l.emit(sweep.Event{Kind: sweep.EventLaunch, Text: l.job.Config.Key})
}

// closeAttached waits for the launch's goroutines and puts its files on disk.
func (l *launch) closeAttached() {
	l.quit()
	l.tasks.Wait()
	for _, f := range []*lines{l.metrics, l.gpuLines} {
		if err := f.close(); err != nil {
			l.note(fmt.Sprintf("%s is not complete: %v", filepath.Base(f.f.Name()), err))
		}
	}
}

// reach waits until the server answers as asked. It returns how that ended, nil when it does.
func (l *launch) reach(ctx context.Context) *sweep.Ending {
	if why := l.takeKey(l.agent.opt.Environ); why != "" {
		return &sweep.Ending{Outcome: sweep.InfraLost, Phase: sweep.PhaseReady, Detail: why}
	}
	limit, cancel := context.WithTimeout(ctx, min(attachTime, l.agent.opt.DyingTime))
	defer cancel()
	for {
		if said := l.answer(limit, l.engine.Health, healthTimeout); said != "" {
			l.unprovedAs("GET %s %s", l.engine.Health, said)
		} else if name, why := l.listed(limit); why != "" {
			l.unprovedAs("%s", why)
		} else {
			l.served = name
			if done, ending := l.generates(limit); done {
				return ending
			}
		}
		sleep(limit, 500*time.Millisecond)
		switch {
		case ctx.Err() != nil:
			e := l.aborted(ctx)
			return &e
		case limit.Err() != nil:
			return &sweep.Ending{Outcome: sweep.InfraLost, Phase: sweep.PhaseReady,
				Detail: join(fmt.Sprintf("the server at %s, which somebody else runs, does not answer as asked", l.job.Attach), l.whyUnproved())}
		}
	}
}

// listed is the name by which the server knows the grid's model: that name itself, or its file's, or the only one there is.
func (l *launch) listed(ctx context.Context) (name, why string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, body, err := l.get()(ctx, http.MethodGet, l.engine.Models, nil)
	if err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		return "", fmt.Sprintf("GET %s: HTTP %d: it asks for another API key; attach_key names the environment variable that holds it", l.engine.Models, status)
	}
	if err != nil || status != http.StatusOK {
		return "", fmt.Sprintf("GET %s did not answer with a list of models", l.engine.Models)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Data) == 0 {
		return "", fmt.Sprintf("GET %s lists no model", l.engine.Models)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	for _, want := range []string{l.job.Model, filepath.Base(l.job.Model)} {
		if slices.Contains(names, want) {
			return want, ""
		}
	}
	if len(names) > 1 {
		return "", sweep.Printable(fmt.Sprintf("it serves %s, and not %s: name one of them as the grid's model", strings.Join(names, ", "), l.job.Model))
	}
	l.note(sweep.Printable(fmt.Sprintf("the attached server names its model %s", names[0])))
	return names[0], ""
}

// lost is how a load ended whose server went away, or stopped to answer. What became of it only its owner knows.
func (l *launch) lost(ctx context.Context, why string) sweep.Ending {
	e := sweep.Ending{Outcome: sweep.CrashLoad, Phase: sweep.PhaseLoad, Cause: "unknown"}
	said := l.answer(ctx, l.engine.Health, 5*time.Second)
	if said == "" {
		e.Outcome = sweep.HangLoad
		e.Detail = join(why, fmt.Sprintf("the server at %s still answers GET %s", l.job.Attach, l.engine.Health))
		return e
	}
	e.Detail = join(fmt.Sprintf("the server at %s, which somebody else runs, went away: GET %s %s", l.job.Attach, l.engine.Health, said), why)
	return e
}

// lookAtAttached asks an attached server whether it is there, and for its model. Nothing is generated.
func (s *survey) lookAtAttached(ctx context.Context) {
	l := &launch{job: s.jobs[0], engine: s.Engine}
	if why := l.takeKey(s.Environ); why != "" {
		s.block(CheckAttached, "%s: %s", l.job.Attach, why)
		return
	}
	if said := l.answer(ctx, s.Engine.Health, askTimeout); said != "" {
		s.block(CheckAttached, "%s: GET %s %s", l.job.Attach, s.Engine.Health, sweep.Printable(said))
		return
	}
	name, why := l.listed(ctx)
	if why != "" {
		s.block(CheckAttached, "%s: %s", l.job.Attach, why)
		return
	}
	s.add(CheckAttached, sweep.LevelOK, "%s serves %s; it is never started, stopped or signalled", l.job.Attach, sweep.Printable(name))
}
