package sweep

import (
	"fmt"
	"strings"
)

// Container says that servers run in containers of an image, each started, owned and ended by its id.
type Container struct {
	Runtime string   `json:"runtime"`        // docker, podman, or the path of a program that takes the same commands
	Image   string   `json:"image"`          // NAME@sha256:…: a tag may name another image tomorrow
	Args    []string `json:"args,omitempty"` // more flags of "run": mounts, the size of /dev/shm
}

// The runtimes whose commands are known.
const (
	Docker = "docker"
	Podman = "podman"
)

// ContainerStart is what a launch adds to the command line of its container. The zero value gives what a person would type.
type ContainerStart struct {
	IDFile  string   // into which the runtime writes the container's id
	Label   string   // KEY=VALUE by which the container is known as ours
	GPUs    []string // UUIDs; none: the container gets no GPU
	Env     []string // names of variables that the container takes from the runtime's own environment, so that no value stands here
	Workdir string   // inside the container
	Memory  int64    // limit of its host memory in bytes, swap included; 0: none
}

// Argv is the command line that runs a server's command line in a container. Its network is the host's, so that the load
// generator measures the server and no proxy; GPUs are named by UUID.
func (c Container) Argv(start ContainerStart, server []string) []string {
	argv := []string{c.Runtime, "run"}
	if start.IDFile != "" {
		argv = append(argv, "--cidfile", start.IDFile)
	}
	if start.Label != "" {
		argv = append(argv, "--label", start.Label)
	}
	argv = append(argv, "--network", "host")
	switch {
	case len(start.GPUs) == 0:
	case c.podman():
		for _, uuid := range start.GPUs {
			argv = append(argv, "--device", "nvidia.com/gpu="+uuid)
		}
	default: // docker reads the value as CSV, in which a comma needs quotes
		argv = append(argv, "--gpus", fmt.Sprintf(`"device=%s"`, strings.Join(start.GPUs, ",")))
	}
	for _, name := range start.Env {
		argv = append(argv, "--env", name)
	}
	if start.Workdir != "" {
		argv = append(argv, "--workdir", start.Workdir)
	}
	if start.Memory > 0 {
		argv = append(argv, "--memory", fmt.Sprint(start.Memory), "--memory-swap", fmt.Sprint(start.Memory))
	}
	argv = append(argv, c.Args...)
	argv = append(argv, "--entrypoint", server[0], c.Image) // whatever the image would start by itself
	return append(argv, server[1:]...)
}

// Line is a command line for a person: the server's own, or what runs it in the container.
func (c *Container) Line(workdir string, server []string) []string {
	if c == nil || len(server) == 0 {
		return server
	}
	return c.Argv(ContainerStart{Workdir: workdir}, server)
}

func (c Container) podman() bool {
	return c.Runtime == Podman || strings.HasSuffix(c.Runtime, "/"+Podman)
}
