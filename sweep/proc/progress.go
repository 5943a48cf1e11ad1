package proc

import "sync"

// compilers are the programs that kernels are built with during a start, by the name that the kernel shows.
var compilers = map[string]bool{
	"nvcc": true, "cicc": true, "cudafe++": true, "ptxas": true, "fatbinary": true, "nvlink": true, "ninja": true,
	"gcc": true, "g++": true, "cc1": true, "cc1plus": true, "c++": true, "as": true, "ld": true, "collect2": true,
	"clang": true, "clang++": true, "ld.lld": true, "hipcc": true, "cmake": true, "make": true, "nvrtc": true,
}

// meter adds up samples so that what a process did stays counted when it ends.
type meter struct {
	mu       sync.Mutex
	read     map[Identity]int64
	compiled map[Identity]uint64
	peak     int64
}

func (m *meter) sample(tree []Process) Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil {
		m.read, m.compiled = map[Identity]int64{}, map[Identity]uint64{}
	}
	var s Sample
	var memory int64
	for _, p := range tree {
		if n, err := bytesRead(p.PID); err == nil {
			m.read[p.Identity] = max(n, m.read[p.Identity])
		}
		if compilers[p.Comm] {
			m.compiled[p.Identity] = max(uint64(p.CPU/tick), m.compiled[p.Identity])
		}
		memory += p.RSS
	}
	m.peak = max(m.peak, memory)
	for _, n := range m.read {
		s.BytesRead += n
	}
	for _, n := range m.compiled {
		s.CompilerTicks += n
	}
	s.MemoryPeak = m.peak
	return s
}
