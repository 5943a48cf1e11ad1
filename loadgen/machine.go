package loadgen

import (
	"math"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// machineShot is what the process and its machine did until a moment.
type machineShot struct {
	steal, total float64 // ticks of all cores; 0: not known
	idle, own    float64 // idle ticks, and all, of the cores that this process may use; 0: not known
	cycles       float64 // of the garbage collector
	pauses       *metrics.Float64Histogram
}

const (
	metricCycles = "/gc/cycles/total:gc-cycles"
	metricPauses = "/sched/pauses/total/gc:seconds"
)

func shootMachine() machineShot {
	samples := []metrics.Sample{{Name: metricCycles}, {Name: metricPauses}}
	metrics.Read(samples)
	m := machineShot{cycles: float64(samples[0].Value.Uint64()), pauses: samples[1].Value.Float64Histogram()}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m
	}
	cores := coresOf("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		name, isCore := strings.CutPrefix(f[0], "cpu")
		if !isCore {
			break
		}
		idle, steal, total := ticksOf(f[1:])
		if name == "" {
			m.steal, m.total = steal, total
			continue
		}
		if n, err := strconv.Atoi(name); err == nil && cores[n] {
			m.idle, m.own = m.idle+idle, m.own+total
		}
	}
	return m
}

// ticksOf reads a line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user time
// already.
func ticksOf(fields []string) (idle, steal, total float64) {
	for i, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || i > 7 {
			break
		}
		total += v
		switch i {
		case 3, 4:
			idle += v
		case 7:
			steal = v
		}
	}
	return idle, steal, total
}

// coresOf reads which cores a process may use: "0-3,8".
func coresOf(status string) map[int]bool {
	cores := map[int]bool{}
	b, err := os.ReadFile(status)
	if err != nil {
		return cores
	}
	_, list, _ := strings.Cut(string(b), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		for n := from; err1 == nil && err2 == nil && n <= to; n++ {
			cores[n] = true
		}
	}
	return cores
}

// minus says what happened since before.
func (m *machineShot) minus(before *machineShot) Evidence {
	e := Evidence{"gc_cycles": m.cycles - before.cycles}
	if total := m.total - before.total; total > 0 {
		e["steal_share"] = (m.steal - before.steal) / total
	}
	if own := m.own - before.own; own > 0 {
		e["core_idle_share"] = (m.idle - before.idle) / own
	}
	var sum, most float64 // s
	for i, n := range m.pauses.Counts {
		n -= before.pauses.Counts[i]
		if n == 0 {
			continue
		}
		low, high := m.pauses.Buckets[i], m.pauses.Buckets[i+1]
		if math.IsInf(low, 0) {
			low = 0
		}
		if math.IsInf(high, 0) {
			high = low
		}
		sum += float64(n) * (low + high) / 2
		most = high
	}
	e["gc_pause_ms"], e["gc_pause_max_ms"] = 1000*sum, 1000*most
	return e
}

// threadTimes reads how long a thread was on a core, and how long it was ready and had none; −1: not known.
func threadTimes(id int64) (cpu, delay time.Duration) {
	b, err := os.ReadFile("/proc/self/task/" + strconv.FormatInt(id, 10) + "/schedstat")
	if err != nil {
		return -1, -1
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return -1, -1
	}
	on, err1 := strconv.ParseInt(f[0], 10, 64)
	off, err2 := strconv.ParseInt(f[1], 10, 64)
	if err1 != nil || err2 != nil {
		return -1, -1
	}
	return time.Duration(on), time.Duration(off)
}
