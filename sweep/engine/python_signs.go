package engine

import (
	"regexp"
	"strconv"

	"sweep/sweep"
)

// What PyTorch, CUDA, NCCL, the model hub, argparse and the operating system say, whichever server runs on them.

var (
	allocation = regexp.MustCompile(`(?i)tried to allocate ([\d.]+ [KMG]iB)\. GPU (\d+) has a total capacity of ([\d.]+ [KMG]iB) of which ([\d.]+ [KMG]iB) is free`)
	argparse   = regexp.MustCompile(`error: (.*?)(?: \(choose from.*)?$`)
	everything = regexp.MustCompile(`(?s)^(.*)$`)
	behind     = regexp.MustCompile(`(?s)^(?:[\w.]+: )*(.*)$`) // the classes of an exception
	anyFlag    = regexp.MustCompile(`(--?[A-Za-z][\w.-]*)`)
)

const (
	refusedFlags = "the server refuses its flags: $1"
	modelUnread  = "the model cannot be read: $1"
	hostRanOut   = "host memory ran out: $1"
	portTaken    = "the port is taken: $1"
	collective   = "a collective failed: $1"
)

var pythonArguments = []rule{
	{has: []string{"error: unrecognized arguments: ", "error: argument ", "error: the following arguments are required", "error: one of the arguments", "error: expected ", "error: ambiguous option", "error: invalid "},
		phase: sweep.PhaseLaunch, flag: anyFlag, detail: argparse, judge: func(groups []string, _ *sweep.Sign) bool { return groups != nil },
		unless: "Error: ", sign: sweep.Sign{Outcome: sweep.BadFlag, Priority: classFlag, Detail: refusedFlags}},
}

var hub = []rule{
	{begins: []string{"Repo id must be in the form", "You are trying to access a gated repo", "Cannot access gated repo", "Access to model ", "We couldn't connect to", "Repository Not Found", "Unrecognized model in",
		"Cannot find any model weights with", "It looks like the config file at", "Model architectures", "Can't load ", "Unable to load vocabulary", "Couldn't instantiate the backend tokenizer", "Invalid repository ID or local directory",
		"Invalid repository ID", "The checkpoint you are trying to load has model type", "Error while deserializing header", "No supported config format found", "Failed to load the tokenizer", "Model class ", "No model weights found",
		"Failed to download", "Cannot find model"},
		has: []string{"is not a local folder and is not a valid model identifier", "does not appear to have a file named", "is not a valid JSON file", "Entry Not Found for url", "Repository Not Found for url",
			"are not supported for now", "has no vLLM implementation", "incomplete metadata, file not fully covered", "Cannot send a request, but offline mode", "is not a valid repository id", "are not supported. Supported architectures"},
		unless: "Ignore import error", sign: sweep.Sign{Outcome: sweep.BadModel, Priority: classFlag, Detail: modelUnread}, detail: behind},
	{classes: []string{"huggingface_hub.errors.HFValidationError", "huggingface_hub.errors.RepositoryNotFoundError", "huggingface_hub.errors.GatedRepoError", "huggingface_hub.errors.LocalEntryNotFoundError", "safetensors_rust.SafetensorError",
		"huggingface_hub.utils._errors.RepositoryNotFoundError", "huggingface_hub.utils._errors.GatedRepoError", "huggingface_hub.errors.RevisionNotFoundError", "huggingface_hub.errors.EntryNotFoundError", "huggingface_hub.errors.OfflineModeIsEnabled"},
		sign: sweep.Sign{Outcome: sweep.BadModel, Priority: classConfig, Detail: modelUnread}, detail: behind},
}

var gpuSupport = []rule{
	{has: []string{"no kernel image is available", "device kernel image is invalid", "hipErrorNoBinaryForGpu", "is not defined for option 'gpu-name'", "Unsupported gpu architecture", "PTX was compiled with an unsupported toolchain"},
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the device is not supported: no kernel image for it in this build"}},
	{has: []string{"CUDA error: invalid device ordinal"},
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the flags ask for more devices than there are"}},
	{has: []string{"is larger than the number of available GPUs", "number of required GPUs exceeds the total number of available"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the flags ask for more devices than there are: $1"}, detail: behind},
	{begins: []string{"Found no NVIDIA driver", "No CUDA GPUs are available", "Failed to infer device type", "No HIP GPUs are available", "The NVIDIA driver on your system is too old", "CUDA driver version is insufficient",
		"CUDA unknown error - this may be due to an incorrectly set up environment", "Unexpected error from cudaGetDeviceCount()"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the server finds no usable device: $1"}, detail: behind},
	{begins: []string{"SGLang only supports sm"}, has: []string{"only supported on GPUs with compute capability", "is not supported for the current GPU", "Minimum capability:", "requires GPUs with sm", "GPUs with compute capability at least",
		"requires compute capability", "not supported on this GPU", "does not support this GPU", "only supports sm", "not supported on compute capability", "is only supported on Hopper", "is only supported on Blackwell", "only support SM"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.BadGPU, Priority: classFlag, Detail: "the device is not supported: $1"}, detail: behind},
}

var hostMemory = []rule{
	{has: []string{"/dev/shm"}, also: "No space left on device",
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "shared memory (/dev/shm) ran out: $1"}, detail: everything},
	{begins: []string{"unable to open shared memory object", "unable to allocate shared memory"}, has: []string{"out of shared memory"}, unless: "out of resource",
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "shared memory (/dev/shm) ran out: $1"}, detail: everything},
	{has: []string{"DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory"},
		sign:   sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory ran out: tried to allocate $1 bytes"},
		detail: regexp.MustCompile(`you tried to allocate (\d+) bytes`)},
	{begins: []string{"[Errno 12] Cannot allocate memory", "[Errno 12]", "std::bad_alloc", "Cannot allocate memory", "mmap failed: Cannot allocate memory"}, raised: true,
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: hostRanOut}, detail: everything},
	{has: []string{"cudaHostAlloc", "cudaMallocHost", "pin_memory", "cudaHostRegister"}, also: "out of memory", raised: true,
		sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: "host memory could not be pinned: $1"}, detail: everything},
	{classes: []string{"MemoryError", "numpy.core._exceptions._ArrayMemoryError", "numpy._core._exceptions._ArrayMemoryError"}, sign: sweep.Sign{Outcome: sweep.HostShort, Priority: classHost, Detail: hostRanOut}, detail: everything},
	{begins: []string{"[Errno 28] No space left on device", "No space left on device"}, raised: true, sign: sweep.Sign{Outcome: sweep.InfraDisk, Priority: classHost, Detail: "a disk is full: $1"}, detail: everything},
}

var ports = []rule{
	{begins: []string{"[Errno 98]", "[Errno 48]"}, sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: portTaken}, detail: everything},
	{begins: []string{"Port ", "port "}, also: "already in use", sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: portTaken}, detail: everything},
	{begins: []string{"Address already in use"}, has: []string{"is not available in 30 seconds", "failed to listen on any local network address", "EADDRINUSE", "ddress already in use", "DDRESS ALREADY IN USE"},
		sign: sweep.Sign{Outcome: sweep.BusyPort, Priority: classPort, Detail: "a port of the inside is taken: $1"}, detail: everything},
}

var deviceMemory = []rule{
	{has: []string{"CUDA-capable device(s) is/are busy or unavailable", "all CUDA-capable devices are busy or unavailable", "cudaErrorDevicesUnavailable"},
		sign: sweep.Sign{Outcome: sweep.BusyGPU, Priority: classTooSmall, Detail: "somebody else has the device for itself: $1"}, detail: everything},
	{has: []string{"occurred when warming up"}, also: "out of memory", raised: true, phase: sweep.PhaseWarmup, sign: sweep.Sign{Priority: classOOM, Detail: "$1"}, detail: behind},
	{begins: []string{"CUDA out of memory", "HIP out of memory", "XPU out of memory", "NPU out of memory", "MPS backend out of memory"}, classes: []string{"torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"}, raised: true,
		sign: sweep.Sign{Priority: classOOM, Detail: "tried to allocate $1 on GPU $2 with $4 of $3 free"}, detail: allocation},
	{begins: []string{"CUDA error: out of memory", "CUDA driver error: out of memory", "CUDA Error: out of memory", "HIP error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY"}, sign: sweep.Sign{Priority: classOOM}},
	{has: []string{"CUBLAS_STATUS_ALLOC_FAILED", "Failed to allocate memory for batch_prefill_tmp_v", "Masked grouped-GEMM workspace allocation failed", "CUDNN_STATUS_ALLOC_FAILED", "Triton Error [CUDA]: out of memory", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"}, raised: true,
		sign: sweep.Sign{Priority: classOOM}},
	{has: []string{"Cuda failure"}, also: "out of memory", sign: sweep.Sign{Priority: classOOMAny}},
	{begins: []string{"Failed to CUDA calloc ", "Failed to CUDA malloc "}, sign: sweep.Sign{Priority: classNCCLMemory, Detail: "NCCL tried to allocate $1 bytes"}, detail: regexp.MustCompile(`alloc (\d+) bytes`)},
	{has: []string{"Tried to allocate "}, also: "out of memory", raised: true, sign: sweep.Sign{Priority: classOOM, Detail: "tried to allocate $1 on GPU $2 with $4 of $3 free"}, detail: allocation},
}

var collectives = []rule{
	{has: []string{"has fallen off the bus", "GPU is lost", "uncorrectable ECC error", "Uncorrectable ECC"}, sign: sweep.Sign{Outcome: sweep.InfraGPU, Priority: classFlag, Detail: "a device failed: $1"}, detail: everything},
	{has: []string{"CUDA error: an illegal memory access", "CUDA error: device-side assert", "CUBLAS_STATUS_EXECUTION_FAILED", "CUDA error: unspecified launch failure", "CUDA error: misaligned address", "CUDA error: an illegal instruction",
		"CUDA Error: an illegal memory access", "cudaErrorIllegalAddress", "illegal memory access was encountered", "CUDA error: the launch timed out", "HIP error: ", "out of resource: shared memory", "CUBLAS_STATUS_INTERNAL_ERROR", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUBLAS_STATUS_NOT_INITIALIZED"},
		unless: "HTTP/1.1\"", sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "cuda", Priority: classCUDA}},
	{begins: []string{"NCCL error", "NCCL Error"}, raised: true, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime, Detail: collective}, detail: everything},
	{has: []string{"Watchdog caught collective operation timeout", "NCCL watchdog thread terminated with exception", "NCCL communicator was aborted"}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime}},
	{has: []string{"Connection closed by peer", "recvValue failed", "failed to recv, got 0 bytes", "Did the remote server shutdown or crash?", "Gloo connectFullMesh failed", "ncclRemoteError"}, raised: true,
		unless: "HTTP", sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classPeer, Detail: "another rank went away: $1"}, detail: everything},
	{has: []string{"Timed out waiting", "wait timeout after", "Timed out after"}, raised: true, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime, Detail: collective}, detail: everything},
	{classes: []string{"torch.distributed.DistBackendError", "c10::DistBackendError", "torch.distributed.DistNetworkError", "torch.distributed.DistStoreError", "torch.distributed.DistError"},
		has: []string{"ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidUsage"}, unless: "terminate called",
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "nccl", Priority: classRuntime, Detail: collective}, detail: everything},
	{has: []string{"CUDA error: "}, raised: true, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "cuda", Priority: classCUDA}},
}

// The shell, the service manager and the C runtime speak of a death; none of them knows its cause.
var deaths = []rule{
	{begins: []string{"systemd["}, has: []string{"Main process exited, code=killed, status=9"},
		also: "status=9/KILL", sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "killed", Priority: classDeath, Detail: "the server got SIGKILL; nothing proves from whom"}},
	{has: []string{"Main process exited, code=killed, status=15", "Main process exited, code=killed, status=2/"}, sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "the server was stopped from outside"}},
	{has: []string{"Main process exited, code="}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classDeath}},
	{begins: []string{"Killed"}, ends: []string{"Killed"}, sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "killed", Priority: classShell, Detail: "the shell says that the server was killed; nothing proves by whom"}},
	{has: []string{" Killed  "}, also: ": line ", sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "killed", Priority: classShell, Detail: "the shell says that the server was killed; nothing proves by whom"}},
	{begins: []string{"Segmentation fault", "Fatal Python error: Segmentation fault", "Bus error", "Illegal instruction", "Aborted (core dumped)", "Fatal Python error:", "*** SIGSEGV", "!!!!!!! Segfault encountered", "*** Aborted at", "SIGSEGV", "Floating point exception"},
		has:  []string{"Segmentation fault (core dumped)", "Aborted                 (core dumped)", "Aborted (core dumped)"},
		sign: sweep.Sign{Outcome: sweep.CrashStart, Cause: "unknown", Priority: classCore}},
	{begins: []string{"terminate called after throwing", "terminate called without an active exception", "libc++abi: terminating"}, sign: sweep.Sign{Effect: true, Priority: classDeath}},
	{begins: []string{"Terminated"}, ends: []string{"Terminated"}, sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classStopped, Detail: "the server was stopped from outside by SIGTERM"}},
	{begins: []string{"Finished server process [", "Shutting down"}, ends: []string{"]", "Shutting down"}, sign: sweep.Sign{Outcome: sweep.Aborted, Priority: classShutdown, Detail: "the server's HTTP part was told to end"}},
}

// tooLittleFree judges "(free/total GiB)": where nearly all is free nobody else holds the card, and the setting asks
// for more than there is.
func tooLittleFree(groups []string, sign *sweep.Sign) bool {
	if groups == nil {
		return false
	}
	free, err1 := strconv.ParseFloat(groups[1], 64)
	total, err2 := strconv.ParseFloat(groups[2], 64)
	if err1 == nil && err2 == nil && free >= 0.97*total {
		sign.Outcome, sign.Flag = sweep.BadFlag, "--gpu-memory-utilization"
		sign.Detail = "gpu-memory-utilization asks for more than the card has free, though nobody else uses it: " + sign.Detail
	}
	return true
}
