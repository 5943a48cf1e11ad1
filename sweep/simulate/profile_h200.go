package simulate

// h200 is the machine of recordings of a real SGLang 0.5.17 with an 8B model of random weights, on one card or two.
// Every number without a comment was read there.
func h200(name, about string, cards int) *Profile {
	return &Profile{
		Name:  name,
		About: about,

		GPUName:          "NVIDIA H200",
		GPUCount:         cards,
		GPUTotalMiB:      143_771,
		GPUReservedMiB:   615,
		TorchCapacityGiB: 139.80,
		HostTotalBytes:   int64(cards) * 128 * gib,
		HostIdleBytes:    int64(cards) * 1_500 * mib,
		PinBytesPerS:     1.26e9 * float64(cards), // one rank pinned 60 GB in 47.8 s
		LoadBackBytesPS:  39e9,                    // 79,990 tokens of 131,072 B in 0.269 s

		Architecture:   "LlamaForCausalLM",
		ModelType:      "llama",
		ContextLength:  32_768,
		VocabularySize: 32_000,
		Shards:         1, // random weights: nothing is read
		ShardsPerS:     5,

		TPSize:            1,
		FreeAtStartBytes:  1_140_270 * 131_072, // 11,402.7 tokens for 0.01 of the fraction
		WeightBytes:       111_198 * 131_072,   // 13.57 GiB: leaves 801,018 tokens at 0.80
		CellBytes:         131_072,
		EagerBufferBytes:  768 * mib, // 0.62 GiB beside the pool, half a GiB of it the table of 4,096 requests, and 0.13 GiB after it
		DecodeGraphBase:   108 * mib, // 0.23 GiB at a maximum of 256; how it divides is not known
		DecodeGraphPerBS:  512 << 10,
		PrefillGraphBytes: 1_413 * mib, // 1.38 GiB

		// An allocation of 448 MiB for 8,192 tokens failed with 0.45 GiB free and one of 3.5 GiB for 65,536 with 3.46 GiB:
		// 57,344 B a token for gate and up alone; ten prompts of 30,000 tokens in chunks of 8,192 lived on 1.82 GiB.
		PrefillPerToken:   100 << 10,
		PrefillPerContext: 1 << 10,
		DecodePerRequest:  2 * 4 * 32_000,

		Import: 10, ServerArgs: 1.5, Spawn: 11, Dist: 0.3, KVAlloc: 0.7, WarmUp: 1.1,
		PrefillGraph: 9.5, DecodeGraph: 4.3,
		// 177, 1,372, 3,550 and 4,966 tok/s with 1, 8, 32 and 128 in flight of 512 + 128 tokens.
		StepBase: 0.0046, StepPerRequest: 0.00006,
		PrefillBase: 0.004, PrefillPerTokenS: 3.9e-5, // two prompts of 8,000 tokens in 0.62 s
	}
}
