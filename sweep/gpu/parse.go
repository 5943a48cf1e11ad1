package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const mib = 1 << 20

// table is what nvidia-smi prints as CSV: a header that names the columns, then a row for each thing.
type table struct {
	columns map[string]int
	rows    [][]string
}

// otherNames are headers that differ from the name in the query.
var otherNames = map[string]string{
	"clocks.current.sm":     "clocks.sm",
	"clocks.current.memory": "clocks.mem",
	"used_memory":           "used_gpu_memory",
	"name":                  "process_name", // of a compute-apps query
}

// parseTable reads CSV with the separator ", " (drivers differ in the blank of the header). A value with commas in it is not quoted, so what a
// row has too many is part of the column loose.
func parseTable(text, first, loose string) (table, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	// Drivers print warnings around the table.
	start := slices.IndexFunc(lines, func(l string) bool { return columnName(strings.Split(l, ",")[0]) == first })
	if start < 0 {
		return table{}, fmt.Errorf("no line begins with %q: %q", first, firstLine(text))
	}
	t := table{columns: map[string]int{}}
	header := strings.Split(lines[start], ",")
	for i, h := range header {
		name := columnName(h)
		t.columns[name] = i
		if other, ok := otherNames[name]; ok {
			if _, taken := t.columns[other]; !taken {
				t.columns[other] = i
			}
		}
	}
	at, ok := t.columns[loose]
	for _, line := range lines[start+1:] {
		row := strings.Split(line, ", ")
		if over := len(row) - len(header); over > 0 && ok {
			row = slices.Concat(row[:at], []string{strings.Join(row[at:at+over+1], ", ")}, row[at+over+1:])
		}
		if len(row) == len(header) && strings.TrimSpace(line) != "" {
			t.rows = append(t.rows, row)
		}
	}
	return t, nil
}

// columnName is a header without its unit: "memory.used [MiB]" is memory.used.
func columnName(h string) string {
	name, _, _ := strings.Cut(h, " [")
	return strings.TrimSpace(name)
}

// text is a cell, "" when the driver does not say: "[N/A]", "[Not Supported]", "ERR!", "[No data]".
func (t table) text(row []string, column string) string {
	i, ok := t.columns[column]
	if !ok {
		return ""
	}
	s := strings.TrimSpace(row[i])
	if s == "N/A" || s == "ERR!" || strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		return ""
	}
	return s
}

// number is a cell without its unit, nil when there is none.
func (t table) number(row []string, column string) *float64 {
	s, _, _ := strings.Cut(t.text(row, column), " ")
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != n || n-n != 0 {
		return nil
	}
	return &n
}

// whole is a cell times a unit, nil when there is none.
func (t table) whole(row []string, column string, unit int64) *int64 {
	s, _, _ := strings.Cut(t.text(row, column), " ")
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return nil
	}
	return new(n * unit)
}

func parseDevices(text string) ([]Device, error) {
	t, err := parseTable(text, "index", "name")
	if err != nil {
		return nil, err
	}
	var out []Device
	for _, row := range t.rows {
		index, err := strconv.Atoi(t.text(row, "index"))
		uuid := t.text(row, "uuid")
		if err != nil || uuid == "" {
			return nil, fmt.Errorf("a GPU without index or UUID: %q", strings.Join(row, ", "))
		}
		out = append(out, Device{
			Index: index, UUID: uuid,
			BusID: t.text(row, "pci.bus_id"), Name: t.text(row, "name"), Driver: t.text(row, "driver_version"),
			PState: t.text(row, "pstate"), MIG: t.text(row, "mig.mode.current"), Compute: t.text(row, "compute_mode"),
			Recovery:    t.text(row, "gpu_recovery_action"),
			Throttle:    t.text(row, "clocks_event_reasons.active"),
			MemoryTotal: t.whole(row, "memory.total", mib), MemoryUsed: t.whole(row, "memory.used", mib), MemoryFree: t.whole(row, "memory.free", mib),
			Utilization: t.number(row, "utilization.gpu"), Temperature: t.number(row, "temperature.gpu"), Power: t.number(row, "power.draw"),
			ClockSM: t.number(row, "clocks.sm"), ClockMemory: t.number(row, "clocks.mem"),
			ECCErrors: t.whole(row, "ecc.errors.uncorrected.volatile.total", 1),
		})
	}
	slices.SortStableFunc(out, func(a, b Device) int { return a.Index - b.Index })
	return out, nil
}

func parseProcesses(text string) ([]Process, error) {
	t, err := parseTable(text, "gpu_uuid", "process_name")
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, row := range t.rows {
		pid, err := strconv.Atoi(t.text(row, "pid"))
		if err != nil {
			continue // "[No data]": it ended while it was looked at
		}
		out = append(out, Process{
			UUID: t.text(row, "gpu_uuid"), PID: pid, Name: t.text(row, "process_name"), Memory: t.whole(row, "used_gpu_memory", mib),
		})
	}
	return out, nil
}
