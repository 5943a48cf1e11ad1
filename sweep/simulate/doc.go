// Package simulate is a simulated SGLang server on simulated GPUs. It takes SGLang's own flags,
// prints its log lines in their order, answers its HTTP routes, has its process tree and fails in
// its ways, so that a harness can be tried and tested on a machine without a GPU.
//
// Nothing is taken from a table of answers: a memory model (memory.go) decides how many tokens the
// KV pool holds and whether a phase runs out of memory; a continuous-batching scheduler
// (scheduler.go, decode.go) with a radix prefix cache (radix.go) and a host tier (hostcache.go)
// decides who runs, who waits, who is retracted and what is found in the cache. A [Profile] holds
// the machine's and the model's constants, each with where it comes from.
//
// Model time is divided by a speed-up; what it could not keep up with is reported at GET /simulator.
//
// The steps to use it:
//
//	sweep simulate profiles                                             # what there is
//	sweep simulate sglang --profile llama-8b-24gb --speedup 20 --model-path m --port 30000
//	sweep simulate nvidia-smi --profile llama-8b-24gb --query-gpu=index,memory.used --format=csv,nounits
//	sweep simulate meminfo --profile llama-8b-24gb
//
// A test binary that starts a simulated server calls [RunChild] first in its TestMain, because the
// server starts its scheduler and detokenizer processes from [os.Executable].
package simulate
