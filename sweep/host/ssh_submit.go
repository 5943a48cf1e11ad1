package host

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"

	"sweep/sweep"
)

// Submit implements [sweep.Host]. Values that the jobs' environment refers to go along from this machine, where it
// has them; they are in the agent's environment and nowhere else.
func (s *SSH) Submit(ctx context.Context, jobs []sweep.Job) error {
	if err := s.sendFiles(ctx); err != nil {
		return err
	}
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	for i, some := range slices.Collect(slices.Chunk(jobs, jobsAtOnce)) {
		args := submitArgs{ID: fmt.Sprintf("%x-%d", id, i), Jobs: some, Env: s.secrets(jobs)}
		if err := s.call(ctx, "submit", args, nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// jobsAtOnce bounds how many jobs go into one request, which must fit into one frame.
const jobsAtOnce = 20

// secrets are the values of this machine that the jobs' environment refers to.
func (s *SSH) secrets(jobs []sweep.Job) []string {
	lookup := s.LookupOS
	if lookup == nil {
		lookup = os.LookupEnv
	}
	var env []string
	for _, j := range jobs {
		for _, p := range j.Env {
			for _, name := range sweep.EnvReferences(p.Value) {
				if value, ok := lookup(name); ok && !slices.Contains(env, name+"="+value) {
					env = append(env, name+"="+value)
				}
			}
		}
	}
	return env
}
