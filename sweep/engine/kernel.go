package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sweep/sweep"
)

// killedProcess are the words of the kernel's OOM killer, of kernels from 3 to 7.
var killedProcess = []string{"Killed process ", "Kill process ", "OOM killer", "oom-kill", "OOMKilled"}

var (
	killedLine = regexp.MustCompile(`^(?:\[[^\]]*\]\s*)*(?:kernel:\s*)?(?:\[[^\]]*\]\s*)*(?:[Mm]emory cgroup out of memory: |Out of memory[:\w ()]*?: ?|)Kill(?:ed)? process (\d+)(?: \(([^)]*)\)|, UID \d+, \(([^)]*)\))`)
	oomKill    = regexp.MustCompile(`oom-kill:constraint=.*\btask=([^,]*),pid=(\d+)`)
	counted    = regexp.MustCompile(`^\s*(?:Reason:\s+OOMKilled\b|"?OOMKilled"?:\s*true\b|oom_kill [1-9]\d*$|"?reason"?:\s*"?OOMKilled\b)`)
	unitKill   = regexp.MustCompile(`^systemd(?:\[\d+\])?: \S+: (?:A process of this unit has been killed by the OOM killer|Failed with result 'oom-kill')`)
)

// kernelKill reads a line of the kernel's log in which its OOM killer ends a process. What systemd, a container's runtime
// or a cgroup's counter reports of one belongs to the server's own unit: PID 0.
func kernelKill(line string) (sweep.OOMKill, bool) {
	line = line[:min(len(line), 1000)]
	if m := killedLine.FindStringSubmatch(line); m != nil {
		pid, err := strconv.Atoi(m[1])
		return sweep.OOMKill{PID: pid, Name: cut(m[2]+m[3], 40)}, err == nil
	}
	if unitKill.MatchString(line) || counted.MatchString(line) {
		return sweep.OOMKill{}, true
	}
	return sweep.OOMKill{}, false
}

func killDetail(k sweep.OOMKill) string {
	if k.PID == 0 {
		return "the kernel's OOM killer ended a process of the server's unit or container: host memory ran out"
	}
	return fmt.Sprintf("the kernel's OOM killer ended process %d (%s): host memory ran out", k.PID, k.Name)
}

// KernelKills reads what dmesg or journalctl printed, and returns each process that the kernel's OOM killer
// ended, with its line. Whose process it was is not said there: see [sweep.OOMKill].Ours.
func KernelKills(r io.Reader) ([]sweep.OOMKill, error) {
	var kills []sweep.OOMKill
	lines := bufio.NewReader(r)
	var t transport
	offset := int64(0)
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		text := string(t.strip([]byte(strings.TrimRight(line, "\r\n"))))
		k, ok := kernelKill(text)
		if m := oomKill.FindStringSubmatch(text[:min(len(text), 1000)]); !ok && m != nil {
			pid, perr := strconv.Atoi(m[2])
			k, ok = sweep.OOMKill{PID: pid, Name: cut(m[1], 40)}, perr == nil
		}
		if ok {
			k.Evidence = sweep.Evidence{Line: number, Offset: offset, Text: cut(text, maxEvidence)}
			if n := len(kills); n > 0 && kills[n-1].PID == k.PID { // the kernel says it twice: the line of the killing counts
				kills[n-1] = k
			} else if n < maxPIDs {
				kills = append(kills, k)
			}
		}
		offset += int64(len(line))
		if errors.Is(err, io.EOF) {
			return kills, nil
		}
		if err != nil {
			return kills, fmt.Errorf("kernel log: %w", err)
		}
	}
}

// claim says of each kill whether the process was the server's: by its number, or by a name that only
// servers' processes have.
func claim(kills []sweep.OOMKill, pids map[int]bool) {
	for i := range kills {
		k := &kills[i]
		k.Ours = k.Ours || k.PID == 0 || pids[k.PID]
		k.Ours = k.Ours || ServerName(k.Name)
	}
}

// ServerName reports a process name that only inference servers have, as the kernel writes it.
func ServerName(name string) bool {
	return slices.ContainsFunc([]string{"sglang", "VLLM::", "vllm", "llama-server", "EngineCore"}, func(p string) bool { return strings.HasPrefix(name, p) })
}
