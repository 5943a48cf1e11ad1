package simulate

import (
	"context"
	"fmt"
	"io"
)

const usageText = `usage: sweep simulate sglang --profile P [--speedup N] [--sglang-version V] [--fault F[,F…]] SGLANG-FLAGS…
       sweep simulate nvidia-smi --profile P --query-gpu=FIELDS|--query-compute-apps=FIELDS --format=csv[,noheader][,nounits]
       sweep simulate meminfo --profile P
       sweep simulate memory-events --profile P     counters of the kernel's OOM killer
       sweep simulate kernel-log --profile P        what the kernel said of it
       sweep simulate profiles
`

// Main is everything after "sweep simulate"; it returns the exit code. As sglang it may end the process itself, by the
// signal that SGLang would die of.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	_ = stdin // nothing here reads it: children have pipes of their own
	if len(args) == 0 {
		fmt.Fprint(stderr, usageText)
		return 2
	}
	switch args[0] {
	case "sglang":
		return runSGLang(ctx, args[1:], stdout, stderr)
	case "child":
		code, is := RunChild()
		if !is {
			fmt.Fprintln(stderr, "sweep simulate child: started by simulated servers only")
			return 2
		}
		return code
	case "nvidia-smi":
		return runSMI(args[1:], stdout, stderr)
	case "meminfo":
		return runMeminfo(args[1:], stdout, stderr)
	case "memory-events":
		return runState(eventsFile, args[1:], stdout, stderr)
	case "kernel-log":
		return runState(kernelFile, args[1:], stdout, stderr)
	case "profiles":
		for _, p := range Profiles() {
			fmt.Fprintf(stdout, "%s\t%s\n", p.Name, p.About)
		}
		return 0
	case "-h", "--help", "help":
		fmt.Fprint(stdout, usageText)
		return 0
	}
	fmt.Fprintf(stderr, "sweep simulate: no %q: there are sglang, nvidia-smi, meminfo, memory-events, kernel-log and profiles\n", args[0])
	return 2
}
