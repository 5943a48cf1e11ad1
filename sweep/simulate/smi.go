package simulate

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// smiOptions is a command line of nvidia-smi.
type smiOptions struct {
	profile  *Profile
	gpus     []string // fields of --query-gpu
	apps     []string // fields of --query-compute-apps
	noHeader bool
	noUnits  bool
	reset    bool   // --gpu-reset
	persist  string // -pm: "0" or "1"; empty: not given
	id       string // -i: index or UUID
}

func parseSMI(args []string) (o smiOptions, code int, err error) {
	profile := ""
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		if !has && (name == "--profile" || name == "-i" || name == "--id" || name == "-pm" || name == "--persistence-mode") && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch name {
		case "--profile":
			profile = value
		case "-i", "--id":
			o.id = value
		case "--gpu-reset", "-r":
			o.reset = true
		case "-pm", "--persistence-mode":
			o.persist = value
		case "--query-gpu":
			o.gpus = strings.Split(value, ",")
		case "--query-compute-apps":
			o.apps = strings.Split(value, ",")
		case "--format":
			for f := range strings.SplitSeq(value, ",") {
				switch strings.TrimSpace(f) {
				case "csv":
				case "noheader":
					o.noHeader = true
				case "nounits":
					o.noUnits = true
				default:
					return o, 2, smiError(fmt.Sprintf("Format %q is not valid.", f))
				}
			}
		default:
			return o, 2, smiError(fmt.Sprintf("Option %s is not recognized. Please run 'nvidia-smi -h'.", args[i]))
		}
	}
	if o.profile, err = LookupProfile(profile); err != nil {
		return o, 2, err
	}
	return o, 0, nil
}

// smiError is a refusal in nvidia-smi's own words.
type smiError string

// Error is the text as it is printed.
func (e smiError) Error() string { return string(e) }

// readMachine reads a command line and what the living hold of its machine. code is the exit code of an error.
func readMachine(args []string) (o smiOptions, claims []Claim, code int, err error) {
	if o, code, err = parseSMI(args); err != nil {
		return o, nil, code, err
	}
	claims, err = liveClaims(o.profile)
	return o, claims, 255, err
}

// runSMI prints what nvidia-smi would print for the simulated cards.
func runSMI(args []string, stdout, stderr io.Writer) int {
	o, claims, code, err := readMachine(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return code
	}
	var text string
	switch {
	case o.reset || o.persist != "":
		return o.control(claims, stdout)
	case o.gpus != nil:
		text, err = smiGPUs(o, claims)
	case o.apps != nil:
		text, err = smiApps(o, claims)
	default:
		text = smiList(o.profile, claims)
	}
	if err != nil {
		fmt.Fprintln(stdout, err)
		return 2
	}
	_, _ = io.WriteString(stdout, text)
	return 0
}

// smiField is one column: its unit and its value for a GPU.
type smiField struct {
	unit  string
	value func(p *Profile, gpu int, used int64) string
}

func number(f func(p *Profile, used int64) int64) func(*Profile, int, int64) string {
	return func(p *Profile, _ int, used int64) string { return fmt.Sprint(f(p, used)) }
}

func text(s string) smiField {
	return smiField{"", func(*Profile, int, int64) string { return s }}
}

func smiFields() map[string]smiField {
	busy := func(yes, no string) func(*Profile, int, int64) string {
		return func(_ *Profile, _ int, used int64) string {
			if used > 0 {
				return yes
			}
			return no
		}
	}
	return map[string]smiField{
		"index":                                 {"", func(_ *Profile, gpu int, _ int64) string { return fmt.Sprint(gpu) }},
		"uuid":                                  {"", func(p *Profile, gpu int, _ int64) string { return p.UUID(gpu) }},
		"gpu_uuid":                              {"", func(p *Profile, gpu int, _ int64) string { return p.UUID(gpu) }},
		"pci.bus_id":                            {"", func(p *Profile, gpu int, _ int64) string { return p.BusID(gpu) }},
		"name":                                  {"", func(p *Profile, _ int, _ int64) string { return p.GPUName }},
		"gpu_name":                              {"", func(p *Profile, _ int, _ int64) string { return p.GPUName }},
		"driver_version":                        text("580.159.04"),
		"timestamp":                             {"", func(*Profile, int, int64) string { return time.Now().Format("2006/01/02 15:04:05.000") }},
		"count":                                 {"", func(p *Profile, _ int, _ int64) string { return fmt.Sprint(p.GPUCount) }},
		"memory.total":                          {"MiB", number(func(p *Profile, _ int64) int64 { return p.GPUTotalMiB })},
		"memory.reserved":                       {"MiB", number(func(p *Profile, _ int64) int64 { return p.GPUReservedMiB })},
		"memory.used":                           {"MiB", number(func(_ *Profile, used int64) int64 { return used / mib })},
		"memory.free":                           {"MiB", number(func(p *Profile, used int64) int64 { return p.GPUTotalMiB - p.GPUReservedMiB - used/mib })},
		"utilization.gpu":                       {"%", busy("98", "0")},
		"utilization.memory":                    {"%", busy("71", "0")},
		"temperature.gpu":                       {"", busy("61", "34")},
		"temperature.memory":                    text("[N/A]"),
		"power.draw":                            {"W", busy("402.18", "71.42")},
		"power.limit":                           {"W", func(*Profile, int, int64) string { return "600.00" }},
		"clocks.sm":                             {"MHz", busy("2430", "180")},
		"clocks.mem":                            {"MHz", busy("12481", "405")},
		"clocks.current.sm":                     {"MHz", busy("2430", "180")},
		"clocks.max.sm":                         {"MHz", func(*Profile, int, int64) string { return "2430" }},
		"pstate":                                {"", busy("P1", "P8")},
		"mig.mode.current":                      text("[N/A]"),
		"persistence_mode":                      {"", func(p *Profile, _ int, _ int64) string { return persistence(p) }},
		"compute_mode":                          text("Default"),
		"compute_cap":                           text("12.0"),
		"ecc.mode.current":                      text("Disabled"),
		"display_active":                        text("Disabled"),
		"clocks_throttle_reasons.active":        text("0x0000000000000000"),
		"clocks_event_reasons.active":           text("0x0000000000000000"),
		"ecc.errors.uncorrected.volatile.total": text("[N/A]"),
		"ecc.errors.corrected.volatile.total":   text("[N/A]"),
		"retired_pages.pending":                 text("[N/A]"),
		"clocks_event_reasons.hw_slowdown":      text("Not Active"),
		"clocks_event_reasons.hw_thermal_slowdown":        text("Not Active"),
		"clocks_event_reasons.sw_thermal_slowdown":        text("Not Active"),
		"clocks_event_reasons.sw_power_cap":               text("Not Active"),
		"clocks_throttle_reasons.hw_slowdown":             text("Not Active"),
		"clocks_throttle_reasons.hw_thermal_slowdown":     text("Not Active"),
		"clocks_throttle_reasons.sw_thermal_slowdown":     text("Not Active"),
		"clocks_throttle_reasons.sw_power_cap":            text("Not Active"),
		"clocks_event_reasons.hw_power_brake_slowdown":    text("Not Active"),
		"clocks_throttle_reasons.hw_power_brake_slowdown": text("Not Active"),
	}
}

func smiGPUs(o smiOptions, claims []Claim) (string, error) {
	known := smiFields()
	var b strings.Builder
	var heads []string
	for _, f := range o.gpus {
		f = strings.TrimSpace(f)
		field, ok := known[f]
		if !ok {
			return "", smiError(fmt.Sprintf("Field %q is not a valid field to query.", f))
		}
		if field.unit != "" {
			f += " [" + field.unit + "]" // with nounits too
		}
		heads = append(heads, f)
	}
	if !o.noHeader {
		b.WriteString(strings.Join(heads, ", ") + "\n")
	}
	for gpu := range o.profile.GPUCount {
		if !o.selected(gpu) {
			continue
		}
		var row []string
		for _, f := range o.gpus {
			field := known[strings.TrimSpace(f)]
			v := field.value(o.profile, gpu, gpuUse(claims, gpu))
			if field.unit != "" && !o.noUnits {
				v += " " + field.unit
			}
			row = append(row, v)
		}
		b.WriteString(strings.Join(row, ", ") + "\n")
	}
	return b.String(), nil
}

func (o smiOptions) selected(gpu int) bool {
	if o.id == "" {
		return true
	}
	for id := range strings.SplitSeq(o.id, ",") {
		if id = strings.TrimSpace(id); id == fmt.Sprint(gpu) || id == o.profile.UUID(gpu) || id == o.profile.BusID(gpu) {
			return true
		}
	}
	return false
}

// smiApps lists the processes on the cards, one line for each process and card.
func smiApps(o smiOptions, claims []Claim) (string, error) {
	type app struct {
		claim Claim
		gpu   int
	}
	value := map[string]func(app) string{
		"gpu_uuid":        func(a app) string { return o.profile.UUID(a.gpu) },
		"gpu_name":        func(app) string { return o.profile.GPUName },
		"gpu_bus_id":      func(a app) string { return o.profile.BusID(a.gpu) },
		"pid":             func(a app) string { return fmt.Sprint(a.claim.PID) },
		"process_name":    func(a app) string { return a.claim.Name },
		"name":            func(a app) string { return a.claim.Name },
		"used_gpu_memory": func(a app) string { return fmt.Sprint(a.claim.GPUBytes[a.gpu] / mib) },
		"used_memory":     func(a app) string { return fmt.Sprint(a.claim.GPUBytes[a.gpu] / mib) },
	}
	isMemory := func(f string) bool { return strings.HasPrefix(f, "used_") }
	var b strings.Builder
	var heads []string
	for i, f := range o.apps {
		f = strings.TrimSpace(f)
		o.apps[i] = f
		if value[f] == nil {
			return "", smiError(fmt.Sprintf("Field %q is not a valid field to query.", f))
		}
		if isMemory(f) {
			f += " [MiB]"
		}
		heads = append(heads, f)
	}
	if !o.noHeader {
		b.WriteString(strings.Join(heads, ", ") + "\n")
	}
	for gpu := range o.profile.GPUCount {
		for _, c := range claims {
			if c.GPUBytes[gpu] == 0 || !o.selected(gpu) || c.Name == "" { // nobody's memory is in no list

				continue
			}
			var row []string
			for _, f := range o.apps {
				v := value[f](app{c, gpu})
				if isMemory(f) && !o.noUnits {
					v += " MiB"
				}
				row = append(row, v)
			}
			b.WriteString(strings.Join(row, ", ") + "\n")
		}
	}
	return b.String(), nil
}

// smiList is a short overview for a person.
func smiList(p *Profile, claims []Claim) string {
	var b strings.Builder
	for gpu := range p.GPUCount {
		fmt.Fprintf(&b, "GPU %d: %s (UUID: %s) %d / %d MiB\n", gpu, p.GPUName, p.UUID(gpu), gpuUse(claims, gpu)/mib, p.GPUTotalMiB)
	}
	return b.String()
}

// runMeminfo prints /proc/meminfo of the simulated host.
func runMeminfo(args []string, stdout, stderr io.Writer) int {
	o, claims, code, err := readMachine(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return code
	}
	p := o.profile
	pools := hostUse(claims) // shared memory: it shows as cache, not as a process's own
	available := max(0, p.HostTotalBytes-p.HostIdleBytes-pools)
	for _, line := range []struct {
		name  string
		bytes int64
	}{
		{"MemTotal", p.HostTotalBytes}, {"MemFree", available * 9 / 10}, {"MemAvailable", available}, {"Buffers", 0},
		{"Cached", pools + available/10}, {"SwapCached", 0}, {"Shmem", pools}, {"SwapTotal", 0}, {"SwapFree", 0},
	} {
		fmt.Fprintf(stdout, "%-16s%8d kB\n", line.name+":", line.bytes/1024)
	}
	return 0
}
