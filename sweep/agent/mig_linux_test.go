//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep/sweep"
)

// The machine of these tests: one GPU in two parts, as NVIDIA's MIG guide shows it.
const (
	splitGPU   = "GPU-feba7e40-d724-01ff-b00f-3a439a28a6c7"
	firstPart  = "MIG-2a3b4c5d-0000-5111-8222-0123456789ab"
	secondPart = "MIG-7e8f9a0b-1111-5222-9333-ba9876543210"
)

// splitMachine puts the nvidia-smi of a machine with a split GPU first on PATH. told: it tells the parts' memory.
func splitMachine(t *testing.T, told bool) {
	t.Helper()
	memory := func(used int) string {
		if !told {
			return ""
		}
		return fmt.Sprintf("<fb_memory_usage><total>40448 MiB</total><used>%d MiB</used><free>%d MiB</free></fb_memory_usage>", used, 40448-used)
	}
	part := func(index, used int) string {
		return fmt.Sprintf("<mig_device><index>%d</index><gpu_instance_id>%d</gpu_instance_id><compute_instance_id>0</compute_instance_id>%s</mig_device>", index, index+1, memory(used))
	}
	dir := write(t, t.TempDir(),
		"gpus", "index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], mig.mode.current\n0, "+splitGPU+", NVIDIA H100 80GB HBM3, 81559, 12595, 68490, Enabled\n",
		"apps", "gpu_uuid, pid, used_gpu_memory [MiB], process_name\n"+splitGPU+", 1, 12000, train\n",
		"list", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: "+splitGPU+")\n  MIG 3g.40gb     Device  0: (UUID: "+firstPart+")\n  MIG 3g.40gb     Device  1: (UUID: "+secondPart+")\n",
		"log", "<nvidia_smi_log><gpu><mig_devices>"+part(0, 298)+part(1, 12298)+"</mig_devices><uuid>"+splitGPU+"</uuid><processes><process_info>"+
			"<gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id><pid>1</pid><process_name>train</process_name><used_memory>12000 MiB</used_memory>"+
			"</process_info></processes></gpu></nvidia_smi_log>\n",
		"nvidia-smi", "#!/bin/sh\ncd \"${0%/*}\"\ncase \"$*\" in\n--query-gpu=*) cat gpus;;\n--query-compute-apps=*) cat apps;;\n-L) cat list;;\n\"-q -x\") cat log;;\n*) exit 2;;\nesac\n")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A launch on a part of a GPU claims that part, shows it alone to the server, and holds its memory against the part's own: who
// is on another part is no stranger.
func TestPartOfAGPU(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("memory told %v", told), func(t *testing.T) {
			splitMachine(t, told)
			n := newNight(t)
			n.opt.Locks = t.TempDir()
			job := n.job("ready", "a@1")
			job.GPUs = []string{firstPart}
			n.submit(job)
			if err := n.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := n.launches(job)[0]
			if got := endings([]sweep.LaunchResult{r}); got != "a@1=ok" {
				t.Fatalf("endings %s: %+v", got, r.Ending)
			}
			if r.GPU != "NVIDIA H100 80GB HBM3 MIG 3g.40gb" || r.GPUCount != 1 {
				t.Errorf("%d × %s", r.GPUCount, r.GPU)
			}
			script, err := os.ReadFile(filepath.Join(n.opt.Out, job.Dir(1), "command.sh"))
			if err != nil || !strings.Contains(string(script), "CUDA_VISIBLE_DEVICES="+firstPart) && !strings.Contains(string(script), "CUDA_VISIBLE_DEVICES='"+firstPart+"'") {
				t.Errorf("command.sh %s, %v", script, err)
			}
			said := slices.ContainsFunc(r.Notes, func(s string) bool {
				return strings.HasPrefix(s, "part "+firstPart+" of GPU 0: the driver does not tell its memory")
			})
			if said == told {
				t.Errorf("notes %q", r.Notes)
			}
		})
	}
}

// Whoever has a part keeps others from it and from its whole GPU, and not from another part.
func TestClaimsOfParts(t *testing.T) {
	splitMachine(t, true)
	m := newMachine("", "")
	view := func(wanted ...string) view {
		v, err := m.look(t.Context(), wanted)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	dir := t.TempDir()
	holder := func() *claims { return &claims{dir: dir, held: map[string]*os.File{}} }
	one, two, whole := holder(), holder(), holder()
	first, second, all := view(firstPart), view(secondPart), view()
	if err := one.take(slices.Concat(first.Devices, first.Parts), "/nights/one"); err != nil {
		t.Fatal(err)
	}
	if err := two.take(slices.Concat(second.Devices, second.Parts), "/nights/two"); err != nil {
		t.Errorf("another part: %v", err)
	}
	if err := holder().take(first.Devices, "/nights/three"); err == nil || !strings.Contains(err.Error(), "part "+firstPart+" of GPU 0 is in use by another night") {
		t.Errorf("the same part: %v", err)
	}
	if len(all.Devices) != 1 || len(all.Parts) != 2 {
		t.Fatalf("all: %+v", all)
	}
	if err := whole.take(slices.Concat(all.Devices, all.Parts), "/nights/whole"); err == nil || !strings.Contains(err.Error(), "/nights/one") {
		t.Errorf("the whole GPU: %v", err)
	}
	if _, err := m.look(t.Context(), []string{"MIG-00000000"}); err == nil || !strings.Contains(err.Error(), "it has 1, numbered from 0, and parts (MIG) "+firstPart) {
		t.Errorf("a part that is not there: %v", err)
	}
	for _, c := range []*claims{one, two, whole} {
		c.drop()
	}
}

// The doctor says of split GPUs what a user must know.
func TestSurveyOfParts(t *testing.T) {
	for _, c := range []struct {
		told bool
		gpus []string
		want string
	}{
		{true, []string{firstPart}, "1 × NVIDIA H100 80GB HBM3 MIG 3g.40gb, 39.5 GiB each, at most 0.3 GiB in use"},
		{false, []string{firstPart}, "part " + firstPart + " of GPU 0: the driver does not tell its memory"},
		{true, []string{firstPart, secondPart}, "2 parts (MIG) are given to one server"},
		{true, nil, "GPU 0 is split, and as a whole nothing can use it: name a part under gpus: parts (MIG) " + firstPart + ", " + secondPart},
	} {
		splitMachine(t, c.told)
		n := newNight(t)
		job := n.job("ready", "a@1")
		job.GPUs = c.gpus
		found := Survey{Self: n.opt.Self, Engine: n.engine, Out: t.TempDir()}.Look(t.Context(), []sweep.Job{job})
		if !slices.ContainsFunc(found, func(f sweep.Finding) bool { return f.Check == CheckGPUs && strings.HasPrefix(f.Text, c.want) }) {
			t.Errorf("%v: %+v", c.gpus, found)
		}
	}
}
