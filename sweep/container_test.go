package sweep

import (
	"strings"
	"testing"
)

const testImage = "lmsysorg/sglang@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// The command lines are those that docker's and podman's documentation show.
func TestContainerArgv(t *testing.T) {
	t.Parallel()
	server := []string{"python3", "-m", "sglang.launch_server", "--port", "30000"}
	start := ContainerStart{IDFile: "/n/container.id", Label: "sweep.launch=x", GPUs: []string{"GPU-a", "GPU-b"}, Env: []string{"HF_TOKEN"}, Workdir: "/w", Memory: 1 << 30}
	tail := " --env HF_TOKEN --workdir /w --memory 1073741824 --memory-swap 1073741824 --shm-size=32g --entrypoint python3 " + testImage + " -m sglang.launch_server --port 30000"
	for name, c := range map[string]struct {
		start ContainerStart
		want  string
	}{
		"docker":           {start, `docker run --cidfile /n/container.id --label sweep.launch=x --network host --gpus "device=GPU-a,GPU-b"` + tail},
		"podman":           {start, "podman run --cidfile /n/container.id --label sweep.launch=x --network host --device nvidia.com/gpu=GPU-a --device nvidia.com/gpu=GPU-b" + tail},
		"/usr/bin/podman":  {ContainerStart{GPUs: []string{"GPU-a"}}, "/usr/bin/podman run --network host --device nvidia.com/gpu=GPU-a --shm-size=32g --entrypoint python3 " + testImage + " -m sglang.launch_server --port 30000"},
		"/opt/bin/nerdctl": {ContainerStart{}, "/opt/bin/nerdctl run --network host --shm-size=32g --entrypoint python3 " + testImage + " -m sglang.launch_server --port 30000"},
	} {
		got := strings.Join(Container{Runtime: name, Image: testImage, Args: []string{"--shm-size=32g"}}.Argv(c.start, server), " ")
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if got := (*Container)(nil).Line("/w", server); strings.Join(got, " ") != strings.Join(server, " ") {
		t.Errorf("without a container: %v", got)
	}
}

// A container decides what is measured, so a resume must see it.
func TestContainerInContentKey(t *testing.T) {
	t.Parallel()
	g := &Grid{Engine: "e", Workloads: []Workload{{Name: "w"}}}
	plain := contentKey(g, nil, Config{}, HostSpec{}, Load{Workload: "w"}, 1)
	g.Container = &Container{Runtime: Docker, Image: testImage}
	if contentKey(g, nil, Config{}, HostSpec{}, Load{Workload: "w"}, 1) == plain {
		t.Error("the same with a container as without")
	}
}
