package sweep

import (
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

var imageDigest = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}$`)

// ownedRunFlags are flags of a runtime's "run" that a grid may not give, with the reason.
var ownedRunFlags = map[string]string{
	"--cidfile": "sweep finds its container by it", "--label": "sweep knows its containers by it", "-l": "sweep knows its containers by it",
	"--name": "containers are found by their ids alone", "--rm": "a dead container is asked how it ended, and is then removed",
	"-d": "the container's output is its server's log", "--detach": "the container's output is its server's log",
	"--gpus": "take hosts: gpus, which become UUIDs", "--network": "it is the host's, so that nothing stands before the server",
	"--net": "it is the host's, so that nothing stands before the server", "-p": "its network is the host's", "--publish": "its network is the host's",
	"--restart": "a server that died is a result", "--entrypoint": "take command", "-w": "take workdir", "--workdir": "take workdir",
	"-e": "take env", "--env": "take env", "-t": "the output is no terminal's", "--tty": "the output is no terminal's", "-it": "the output is no terminal's",
	"--pid": "processes are counted with the host's numbers", "--memory": "sweep limits it so that the server dies and not the host", "-m": "sweep limits it so that the server dies and not the host",
}

// readContainer reads in what containers servers run.
func (r *reading) readContainer(n *yaml.Node) {
	const example = "{runtime: docker, image: lmsysorg/sglang@sha256:…}"
	var c Container
	ok := true
	fields := r.section(n, "container", example, "runtime", "image", "args")
	for _, key := range []string{"runtime", "image"} {
		if _, there := fields[key]; !there && n.Kind == yaml.MappingNode {
			r.problem(n, "write "+example, "container has no %s", key)
			ok = false
		}
	}
	if f, there := fields["runtime"]; there {
		s, read := r.path(f.value, "runtime")
		if read && s != Docker && s != Podman && !filepath.IsAbs(s) {
			r.problem(f.value, "write docker, podman, or a path that begins with /", "runtime is docker or podman, not %q", s)
			read = false
		}
		c.Runtime, ok = s, ok && read
	}
	if f, there := fields["image"]; there {
		s, read := r.text(f.value, "image")
		if read && !imageDigest.MatchString(s) {
			r.problem(f.value, "write NAME@sha256:… as 'docker inspect --format {{.RepoDigests}} NAME' shows it", "image %q has no digest, so it may be another one tomorrow", clip(s))
			read = false
		}
		c.Image, ok = s, ok && read
	}
	if f, there := fields["args"]; there {
		for _, item := range r.items(f.value, "args", "[--shm-size=32g, -v, /models:/models:ro]") {
			s, read := r.text(item, "an argument")
			flag, _, _ := strings.Cut(s, "=")
			if why, owned := ownedRunFlags[flag]; read && owned {
				r.problem(item, "take it out", "%s belongs to sweep: %s", flag, why)
				read = false
			}
			c.Args, ok = append(c.Args, s), ok && read
		}
	}
	if len(r.grid.Command) > 0 && r.grid.Command[0] == "sweep" {
		r.problem(n, "take one of the two out", "the command is sweep's own, which is in no image")
		ok = false
	}
	if ok && n.Kind == yaml.MappingNode {
		r.grid.Container = &c
	}
}
