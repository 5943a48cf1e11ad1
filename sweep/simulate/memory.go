package simulate

import (
	"fmt"
	"math"
	"sync/atomic"
)

// gateBytes must be free after the KV pool for SGLang to capture prefill graphs of its own accord.
const gateBytes = 4 * gib

// clipNewTokens is how many new tokens of a request the scheduler reserves for at most
// (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION).
const clipNewTokens = 4096

// memory is what one rank of a server does with its GPU. All bytes are of the tightest rank.
type memory struct {
	p *Profile

	pre     int64 // free before the weights
	weights int64
	cell    int64 // KV bytes of a token
	tokens  int   // of the KV pool; set by sizeKV
	pool    int64 // bytes of the KV pool

	maxDecodeBS  int  // decode graphs are captured up to this batch size; 0: none
	prefillGraph bool // captured

	free     int64 // now, without the peak of activations
	headroom int64 // free when the server became ready
	peak     int64 // largest activation so far: the allocator keeps it

	others atomic.Int64 // taken by others since the ranks were joined
	known  int64        // of that, when the server became ready
}

// newMemory starts the account: others is what other processes hold on the fullest GPU in use.
func newMemory(p *Profile, tp int, kvBytesFactor float64, others int64) *memory {
	m := &memory{p: p, pre: p.FreeAtStartBytes - others, weights: p.WeightBytes / int64(tp)}
	cell := float64(p.CellBytes)
	if !p.MLA { // KV heads are divided among the ranks
		cell = cell * float64(p.TPSize) / float64(tp)
	}
	m.cell = max(1, int64(cell*kvBytesFactor))
	m.free = m.pre
	return m
}

// left is what is free on the GPU, with what others have taken since.
func (m *memory) left() int64 { return m.free - m.others.Load() }

// loadWeights reports false when the weights do not fit.
func (m *memory) loadWeights() bool {
	m.free -= m.weights
	return m.left() > 0
}

// tooLow is what SGLang says when the fraction leaves nothing for the KV pool.
type tooLowError struct{ fraction, above, minimum float64 }

func (e *tooLowError) Error() string {
	return fmt.Sprintf("Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=%s. Raise --mem-fraction-static above %s (minimum viable = 1 - available/pre = %.4f). If using speculative decoding, draft weights are now counted.",
		pyFloat(e.fraction), pyFloat(e.above), e.minimum)
}

// sizeKV computes the pool as SGLang does: free after the weights − free before × (1 − fraction), in GiB as floats,
// divided by the bytes of a token, rounded down to a page and capped.
func (m *memory) sizeKV(fraction float64, pageSize, maxTotalTokens int) error {
	pre, post := float64(m.pre)/gib, float64(m.left())/gib
	rest := post - pre*(1-fraction)
	if rest <= 0 {
		minimum := 1 - post/pre
		return &tooLowError{fraction, math.Ceil(minimum*1000) / 1000, minimum}
	}
	tokens := int(rest * gib / float64(m.cell))
	if maxTotalTokens > 0 {
		tokens = min(tokens, maxTotalTokens)
	}
	m.tokens = tokens / pageSize * pageSize
	m.pool = int64(m.tokens) * m.cell
	return nil
}

// allocateKV reports how much the pool asked for in the allocation that failed; 0: it fits.
func (m *memory) allocateKV() (failed int64) {
	const layers = 32 // the pool is allocated layer by layer, K and V
	if m.pool > m.left() {
		m.free %= max(1, m.pool/(2*layers))
		return m.pool / (2 * layers)
	}
	m.free -= m.pool
	return 0
}

// eagerBuffers takes the input buffers between pool and capture; it reports false when they do not fit.
func (m *memory) eagerBuffers() bool {
	m.free -= m.p.EagerBufferBytes
	return m.left() >= 0
}

// gate reports whether prefill graphs may be captured.
func (m *memory) gate() bool { return m.left() >= gateBytes }

func (m *memory) prefillGraphBytes() int64 { return m.p.PrefillGraphBytes }

func (m *memory) decodeGraphBytes() int64 {
	return m.p.DecodeGraphBase + int64(m.maxDecodeBS)*m.p.DecodeGraphPerBS
}

// take allocates bytes for good and reports whether they fit.
func (m *memory) take(bytes int64) bool {
	if bytes > m.left() {
		return false
	}
	m.free -= bytes
	return true
}

// ready fixes the headroom.
func (m *memory) ready() { m.headroom, m.known = m.left(), m.others.Load() }

// room is what activations may take: the headroom less what others have taken since.
func (m *memory) room() int64 { return m.headroom - (m.others.Load() - m.known) }

// prefillActivation is what one prefill step needs beside weights, pool and graphs: a × tokens of the
// chunk + b × tokens of context of the requests in it.
func (m *memory) prefillActivation(newTokens, contextTokens int) int64 {
	return int64(m.p.PrefillPerToken*float64(newTokens) + m.p.PrefillPerContext*float64(contextTokens))
}

// decodeActivation is what one decode step needs.
func (m *memory) decodeActivation(running int) int64 {
	return int64(m.p.DecodePerRequest * float64(running))
}

// activate raises the peak of activations, which the allocator keeps; it reports false when the headroom does not allow it.
func (m *memory) activate(bytes int64) bool {
	if bytes > m.room() {
		return false
	}
	m.peak = max(m.peak, bytes)
	return true
}

// used is what nvidia-smi shows for this rank's process.
func (m *memory) used() int64 {
	context := m.p.GPUTotalMiB*mib - m.p.GPUReservedMiB*mib - m.p.FreeAtStartBytes
	return context + m.pre - m.free + m.peak
}

// hostPoolTokens sizes the host tier: from bytes (decimal GB, per rank) or as a multiple of the
// device pool, rounded up by a page as SGLang does.
func (m *memory) hostPoolTokens(sizeGB int, ratio float64, pageSize int) (tokens int, bytes int64) {
	if sizeGB > 0 {
		tokens = int(float64(sizeGB)*gb/float64(m.cell)) + pageSize
	} else {
		tokens = int(float64(m.tokens)*ratio) + pageSize
	}
	tokens = tokens / pageSize * pageSize
	return tokens, int64(tokens) * m.cell
}

// hostReserve is what SGLang leaves to the rest of the host when it checks for room.
const hostReserve = 10 * gib

// hostShortError is what SGLang says when the host tier does not fit: each rank checks alone, so ranks together may still take too much.
type hostShortError struct{ want, free int64 }

func (e *hostShortError) Error() string {
	return fmt.Sprintf("Not enough host memory available. Requesting %.2f GB but only have %.2f GB free. Please reduce the size of the hierarchical cache.",
		float64(e.want)/gb, float64(e.free)/gb)
}

func checkHost(want, available int64) error {
	if want > available-hostReserve {
		return &hostShortError{want, available - hostReserve}
	}
	return nil
}

// chunkSize is SGLang's default of --chunked-prefill-size by the size of the GPU.
func chunkSize(gpuMiB int64) int {
	switch {
	case gpuMiB < 35<<10:
		return 2048
	case gpuMiB < 60<<10:
		return 4096
	case gpuMiB < 160<<10:
		return 8192
	}
	return 16384
}

// defaultDecodeBS is SGLang's default of --cuda-graph-max-bs-decode by the size of the GPU.
func defaultDecodeBS(gpuMiB int64, tp int) int {
	pick := func(small, large int) int {
		if tp < 4 {
			return small
		}
		return large
	}
	switch {
	case gpuMiB < 20<<10:
		return 8
	case gpuMiB < 35<<10:
		return pick(24, 80)
	case gpuMiB < 60<<10:
		return pick(32, 160)
	case gpuMiB < 160<<10:
		return pick(256, 512)
	}
	return 512
}

// defaultFraction is SGLang's default of --mem-fraction-static: what is left after a reserve for activations and graphs.
func defaultFraction(gpuMiB int64, tp, chunk, decodeBS int, mla bool) float64 {
	prefill := 8 * float64(len(prefillBuckets(chunk)))
	if mla {
		prefill = 1.5 * 1024
	}
	reserved := 512 + 1.5*float64(max(chunk, 2048)) + float64(tp)/8*1024 + 2*float64(decodeBS) + prefill
	if gpuMiB > 60<<10 {
		reserved = max(reserved, 10<<10)
	}
	return math.Round((float64(gpuMiB)-reserved)/float64(gpuMiB)*1000) / 1000
}

// decodeBuckets are the batch sizes that decode graphs are captured for.
func decodeBuckets(maxBS int) []int {
	var list []int
	add := func(from, to, step int) {
		for n := from; n < to; n += step {
			list = append(list, n)
		}
	}
	list = append(list, 1, 2, 4)
	add(8, 257, 8)
	list = append(list[:4:4], append([]int{12}, list[4:]...)...)
	add(272, 512, 16)
	add(512, maxBS+1, 32)
	n := 0
	for n < len(list) && list[n] <= maxBS {
		n++
	}
	list = list[:n]
	if n == 0 || list[n-1] != maxBS {
		list = append(list, maxBS)
	}
	return list
}

// prefillBuckets are the token counts that prefill graphs are captured for.
func prefillBuckets(maxTokens int) []int {
	var list []int
	for _, r := range [][3]int{{4, 33, 4}, {48, 257, 16}, {288, 513, 32}, {576, 1025, 64}, {1280, 4097, 256}, {4608, maxTokens + 1, 512}} {
		for n := r[0]; n < r[1] && n <= maxTokens; n += r[2] {
			list = append(list, n)
		}
	}
	return list
}
