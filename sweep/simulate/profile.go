package simulate

import (
	"fmt"
	"slices"
	"strings"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	gb  = 1_000_000_000
)

// A Profile is one machine with one model on it: every constant that the simulation computes with.
// Bytes are per GPU (that is, per tensor-parallel rank) unless the name says host.
type Profile struct {
	Name  string
	About string // one line for a person

	// The machine.
	GPUName          string
	GPUCount         int
	GPUTotalMiB      int64 // memory.total of nvidia-smi
	GPUReservedMiB   int64 // held back by the driver: neither used nor free in nvidia-smi
	TorchCapacityGiB float64
	HostTotalBytes   int64
	HostIdleBytes    int64   // in use before any server starts
	PinBytesPerS     float64 // of all ranks together
	LoadBackBytesPS  float64 // host tier to device, each rank at once

	// The model.
	Architecture   string
	ModelType      string
	MLA            bool // one KV vector per token on each rank, not divided by tensor parallelism
	ContextLength  int
	VocabularySize int
	Shards         int     // checkpoint files
	ShardsPerS     float64 // loaded a second, model time

	// Memory of one rank at the tensor-parallel size that the profile was made for.
	TPSize            int
	FreeAtStartBytes  int64   // free after torch and NCCL are up, before weights ("pre")
	WeightBytes       int64   // of all ranks together; divided by the tensor-parallel size
	CellBytes         int64   // KV bytes of one token on one rank at TPSize
	EagerBufferBytes  int64   // input buffers between "Memory pool end" and graph capture
	PrefillGraphBytes int64   // prefill CUDA graphs, when 4 GiB are free for them
	DecodeGraphBase   int64   // decode CUDA graphs: base + a part for each unit of max batch size
	DecodeGraphPerBS  int64   //
	PrefillPerToken   float64 // "a": activation bytes for each token of the chunk
	PrefillPerContext float64 // "b": activation bytes for each token of context of the requests in the chunk
	DecodePerRequest  float64 // activation bytes for each request of a decode batch: logits and sampling

	// Time, in model seconds.
	Import, ServerArgs, Spawn, Dist, KVAlloc, WarmUp float64
	PrefillGraph, DecodeGraph                        float64
	StepBase, StepPerRequest                         float64 // one decode step
	PrefillBase, PrefillPerTokenS                    float64 // one prefill step
}

// Profiles returns what can be simulated, by name.
func Profiles() []*Profile {
	return []*Profile{
		kimi(), llama(),
		h200("llama-8b-h200", "Llama-3-8B bf16 on one H200 141 GB, 128 GiB of host memory", 1),
		h200("llama-8b-2xh200", "Llama-3-8B bf16 on one of two H200 141 GB, or on both; 256 GiB of host memory", 2),
	}
}

// LookupProfile returns the profile with this name.
func LookupProfile(name string) (*Profile, error) {
	all := Profiles()
	if i := slices.IndexFunc(all, func(p *Profile) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("no profile given: --profile takes one of %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("no profile %q: there are %s", name, strings.Join(names, ", "))
}

// UUID names one of the profile's GPUs as the driver would: the same on every machine.
func (p *Profile) UUID(gpu int) string {
	h := uint64(14695981039346656037)
	for _, c := range []byte(p.Name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", uint32(h), uint16(h>>32), uint16(h>>48), 0x5100+gpu, h&0xffffffffff00|uint64(gpu))
}

// BusID is the PCI address of one of the profile's GPUs.
func (p *Profile) BusID(gpu int) string { return fmt.Sprintf("00000000:%02X:00.0", gpu+1) }

// kimi is the machine of a real tuning effort: Kimi-K2.5 in int4 on eight cards of 96 GB.
func kimi() *Profile {
	// Known from that machine: 70,272 B a token (61 layers × 576 values × 2 B), 1,436,860 tokens for 1.0 of the
	// fraction, and 116,171 / 159,277 / 231,120 tokens at 0.85 / 0.88 / 0.93.
	const cell = 70_272
	return &Profile{
		Name:  "kimi-k2.5-8xrtx6000",
		About: "Kimi-K2.5 int4 (MLA) on 8 × RTX PRO 6000 96 GB, 449 GB of host memory",

		GPUName:          "NVIDIA RTX PRO 6000 Blackwell Server Edition",
		GPUCount:         8,
		GPUTotalMiB:      97_887, // the card's data sheet
		GPUReservedMiB:   630,    // 615 MiB were seen on an H200; in proportion to the card's ECC-less size
		TorchCapacityGiB: 94.97,
		HostTotalBytes:   449 * gb,
		HostIdleBytes:    43_300_000_000, // leaves 395 GB usable once SGLang has kept its 10 GiB: what was counted there
		// All ranks together: pinning is the kernel clearing pages. One rank reached 1.26 GB/s on an H200's host; waits of
		// 660 s ended during it here, so eight ranks are taken to reach twice that.
		PinBytesPerS:    2.5e9,
		LoadBackBytesPS: 39e9, // 79,990 tokens of 131,072 B in 0.269 s, recorded on an H200

		Architecture:   "KimiK25ForConditionalGeneration",
		ModelType:      "kimi_k25",
		MLA:            true,
		ContextLength:  262_144,
		VocabularySize: 163_840,
		Shards:         64, // as loaded there, at 1.7 to 1.9 a second
		ShardsPerS:     1.8,

		TPSize:           8,
		FreeAtStartBytes: 1_436_860 * cell, // 94.04 GiB: the slope of tokens over the fraction
		// 1,105,159.5 tokens' worth: solves all three token counts with the same remainder (0.3 to 0.5 tokens away from each edge).
		WeightBytes: 8 * 77_661_768_384,
		CellBytes:   cell,
		// Headroom there was 8.3 / 5.47 / 0.82 GiB while free − KV pool is 14.11 / 11.28 / 6.58: 5.79 GiB go to buffers and
		// graphs at each fraction, so the 4 GiB gate never closed. How they divide is not known; the split below
		// has SGLang's own reserve for MLA prefill graphs (1.5 GiB) in it.
		EagerBufferBytes:  150 * mib,
		PrefillGraphBytes: 1_480 * mib,
		DecodeGraphBase:   770 * mib,
		DecodeGraphPerBS:  7_230_000, // × 512, the default maximum for tp ≥ 4 on this card: 3.45 GiB
		// Known: at 0.93 (0.82 GiB left) long prompts died in their first large prefill and short ones lived. A full
		// chunk of 8,192 new tokens takes 0.13 GiB; an MLA prefill also expands the context of each request in the
		// chunk from its latent form, which is what long prompts have more of: 0.41 GiB at 8,192, 0.81 GiB at 16,384.
		PrefillPerToken:   16 << 10,
		PrefillPerContext: 52 << 10,
		DecodePerRequest:  2 * 4 * 163_840, // fp32 logits and their softmax

		Import: 14, ServerArgs: 2, Spawn: 18, Dist: 9, KVAlloc: 3, WarmUp: 3,
		PrefillGraph: 45, DecodeGraph: 60, // not recorded there; 9.5 s and 4.3 s for an 8B model on one H200
		// Fitted to two speeds seen there: 50 running at 600 tok/s, 119 at 1,300.
		StepBase: 0.077, StepPerRequest: 0.00012,
		// The speeds seen leave at most 2.5 % of the time for the prefill of 963 tokens each 307 ms: hence so small.
		PrefillBase: 0.002, PrefillPerTokenS: 4e-6,
	}
}

// llama is one small inference card with a small model: the machine of the demo.
func llama() *Profile {
	return &Profile{
		Name:  "llama-8b-24gb",
		About: "Llama-3.1-8B bf16 on one L4 24 GB, 64 GB of host memory",

		GPUName:          "NVIDIA L4",
		GPUCount:         1,
		GPUTotalMiB:      23_034, // as nvidia-smi shows it
		GPUReservedMiB:   450,
		TorchCapacityGiB: 22.03,
		HostTotalBytes:   64 * gb,
		HostIdleBytes:    5 * gb,
		PinBytesPerS:     4e9,  // one rank, huge pages; 1.26 GB/s were recorded on an H200's host
		LoadBackBytesPS:  10e9, // PCIe 4.0, 8 lanes in use, less what copies of many small pages lose

		Architecture:   "LlamaForCausalLM",
		ModelType:      "llama",
		ContextLength:  8_192,
		VocabularySize: 128_256,
		Shards:         4,
		ShardsPerS:     1.3,

		TPSize:            1,
		FreeAtStartBytes:  22_000 * mib,   // 21.48 GiB: total − reserved − 0.57 GiB of context, as on an H200
		WeightBytes:       16_060_522_496, // 8,030,261,248 parameters × 2 B
		CellBytes:         131_072,        // 32 layers × 8 KV heads × 128 × 2 (K and V) × 2 B
		EagerBufferBytes:  60 * mib,       // 0.10 to 0.13 GiB on an H200 with chunks of 8,192
		DecodeGraphBase:   220 * mib,      // 0.23 GiB at a maximum of 256 on an H200
		DecodeGraphPerBS:  2 * mib,
		PrefillGraphBytes: 700 * mib, // 1.38 GiB for 8,192 tokens on an H200, 2,048 here
		// gate_up of 57,344 B a token is what an H200 failed to allocate (448 MiB for 8,192); with its input, its
		// activation and the residual stream 100 KiB.
		PrefillPerToken: 100 << 10,
		// Gathered K/V and fp32 partial sums of the attention over the whole context; not recorded, set so that a
		// prompt of 6,000 tokens takes 0.7 GiB.
		PrefillPerContext: 120 << 10,
		DecodePerRequest:  2 * 4 * 128_256,

		// 11 s to the server args and 11 s more to the first line of a scheduler were recorded on an H200's host, from a cold
		// disk; a warm one needs about half. Graphs as recorded there, for fewer shapes.
		Import: 5, ServerArgs: 1, Spawn: 4, Dist: 0.5, KVAlloc: 0.5, WarmUp: 0.5,
		PrefillGraph: 3, DecodeGraph: 1.5,
		StepBase: 0.057, StepPerRequest: 0.00025, // 16 GB of weights at 94 % of 300 GB/s, then attention and sampling
		PrefillBase: 0.02, PrefillPerTokenS: 2.7e-4, // 16 GFLOP a token at half of 121 TFLOPS
	}
}
