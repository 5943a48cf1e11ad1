// Package export writes what a load gave: its result as JSON, and what other load generators would have reported of the
// same requests, each number by that tool's own definition.
//
// The steps to use it:
//
//	err := export.JSON(file, run, result)
//	err = export.BenchServing(file, run, result, record)   // record is what loadgen.Spec.Record received
//	err = export.VLLM(file, run, result, record)
//
// Both count every measured request from the first one's start to the last one's end, start burst and drain included, as these
// tools do. Our own numbers of the window stand beside as sweep_*.
package export
