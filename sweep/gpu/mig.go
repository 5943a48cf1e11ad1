package gpu

import (
	"context"
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A GPU may be split into parts (MIG) that are devices of their own to CUDA, each with memory of its own. The lists of fields
// know only whole GPUs: the parts' UUIDs stand in nvidia-smi -L, their memory and processes in nvidia-smi -q -x, and both name
// a part by its number within its GPU.

// partKey names a part within its machine.
type partKey struct {
	parent string // UUID of the GPU
	index  int    // within it
}

// partLine is a part in nvidia-smi -L; gpuLine is the GPU above it.
var (
	partLine = regexp.MustCompile(`^\s+MIG\s+(\S+)\s+Device\s+(\d+):\s+\(UUID:\s+([^)\s]+)\)`)
	gpuLine  = regexp.MustCompile(`^GPU\s+\d+:\s.*\(UUID:\s+([^)\s]+)\)`)
)

// partName is what nvidia-smi -L says of a part.
type partName struct{ uuid, profile string }

// parseParts reads nvidia-smi -L.
func parseParts(text string) map[partKey]partName {
	parts := map[partKey]partName{}
	parent := ""
	for line := range strings.Lines(text) {
		if m := gpuLine.FindStringSubmatch(line); m != nil {
			parent = m[1]
		}
		if m := partLine.FindStringSubmatch(line); m != nil && parent != "" {
			if index, err := strconv.Atoi(m[2]); err == nil {
				parts[partKey{parent, index}] = partName{m[3], m[1]}
			}
		}
	}
	return parts
}

// smiLog is the part of nvidia-smi -q -x that tells of split GPUs.
type smiLog struct {
	GPUs []struct {
		UUID  string `xml:"uuid"`
		Parts []struct {
			Index    string `xml:"index"`
			Instance string `xml:"gpu_instance_id"`
			Compute  string `xml:"compute_instance_id"`
			Total    string `xml:"fb_memory_usage>total"`
			Used     string `xml:"fb_memory_usage>used"`
			Free     string `xml:"fb_memory_usage>free"`
		} `xml:"mig_devices>mig_device"`
		Processes []struct {
			Instance string `xml:"gpu_instance_id"`
			Compute  string `xml:"compute_instance_id"`
			PID      string `xml:"pid"`
			Name     string `xml:"process_name"`
			Used     string `xml:"used_memory"`
		} `xml:"processes>process_info"`
	} `xml:"gpu"`
}

// parseLog reads nvidia-smi -q -x. Names of processes are not always escaped in it.
func parseLog(text string) (smiLog, error) {
	var log smiLog
	start := strings.Index(text, "<nvidia_smi_log") // drivers print warnings around it
	if start < 0 {
		return log, fmt.Errorf("no nvidia_smi_log: %q", firstLine(text))
	}
	d := xml.NewDecoder(strings.NewReader(text[start:]))
	d.Strict = false
	if err := d.Decode(&log); err != nil {
		return log, fmt.Errorf("nvidia_smi_log: %w", err)
	}
	return log, nil
}

// mebibytes reads "298 MiB"; nil when the driver does not say.
func mebibytes(s string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(s), " MiB"), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return nil
	}
	return new(n * mib)
}

// withParts puts after each split GPU its parts. What of them the driver does not say is absent.
func withParts(devices []Device, names map[partKey]partName, log smiLog) []Device {
	var out []Device
	for _, d := range devices {
		out = append(out, d)
		var indexes []int
		for key := range names {
			if key.parent == d.UUID {
				indexes = append(indexes, key.index)
			}
		}
		slices.Sort(indexes)
		for _, index := range indexes {
			name := names[partKey{d.UUID, index}]
			part := d
			part.Parent, part.UUID, part.Name, part.MIG = d.UUID, name.uuid, d.Name+" MIG "+name.profile, ""
			part.MemoryTotal, part.MemoryUsed, part.MemoryFree = log.memory(d.UUID, index)
			part.Utilization = nil // the driver does not tell a part's own
			out = append(out, part)
		}
	}
	return out
}

// memory is a part's memory in bytes.
func (l smiLog) memory(parent string, index int) (total, used, free *int64) {
	for _, g := range l.GPUs {
		for _, p := range g.Parts {
			if g.UUID == parent && p.Index == strconv.Itoa(index) {
				return mebibytes(p.Total), mebibytes(p.Used), mebibytes(p.Free)
			}
		}
	}
	return nil, nil, nil
}

// onParts are the processes that compute on parts.
func (l smiLog) onParts(names map[partKey]partName) []Process {
	var out []Process
	for _, g := range l.GPUs {
		for _, p := range g.Processes {
			pid, err := strconv.Atoi(p.PID)
			if err != nil {
				continue
			}
			for _, part := range g.Parts {
				index, err := strconv.Atoi(part.Index)
				name, known := names[partKey{g.UUID, index}]
				if err == nil && known && part.Instance == p.Instance && part.Compute == p.Compute {
					out = append(out, Process{UUID: name.uuid, PID: pid, Name: strings.TrimSpace(p.Name), Memory: mebibytes(p.Used)})
				}
			}
		}
	}
	return out
}

// parts asks for the parts of split GPUs. Without a log their memory is not known.
func (r *Reader) parts(ctx context.Context) (map[partKey]partName, smiLog, error) {
	list, err := r.run.output(ctx, r.timeout(), r.command("-L"))
	if err != nil {
		return nil, smiLog{}, err
	}
	text, err := r.run.output(ctx, r.timeout(), r.command("-q", "-x"))
	if err != nil {
		return parseParts(list), smiLog{}, ctx.Err()
	}
	log, err := parseLog(text)
	if err != nil {
		log = smiLog{} // what is half read proves nothing
	}
	return parseParts(list), log, nil
}

// command is an argv of nvidia-smi.
func (r *Reader) command(args ...string) []string {
	if len(r.Command) == 0 {
		return append([]string{"nvidia-smi"}, args...)
	}
	return slices.Concat(r.Command, args)
}

// Split reports whether a GPU is split into parts (MIG), which are the devices that programs can use.
func (d Device) Split() bool { return d.MIG == "Enabled" }
