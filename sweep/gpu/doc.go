// Package gpu reads what a machine's devices and host memory hold. It starts no driver library (the
// program is one static binary): it runs nvidia-smi, or a command that answers as nvidia-smi does,
// and survives it when that hangs. It imports nothing of ours.
//
// The steps to use it:
//
//	r := &gpu.Reader{}                                  // nvidia-smi on PATH
//	devices, err := r.Devices(ctx)                      // errors.Is(err, gpu.ErrNone): no device in this machine
//	baseline := gpu.Used(devices)                       // before anything of ours runs
//	report, err := gpu.WaitBaseline(ctx, r, baseline)   // after a stop: memory is back, three times in a row
//	memory, err := (&gpu.HostReader{}).HostMemory(ctx)
//
// A value that the driver does not give is absent (nil), never 0.
package gpu
