package engine

import (
	"os"
	"strings"
	"testing"

	"sweep/sweep"
)

// examine reads a recorded log as an agent would and returns what is known at the end.
func examine(t testing.TB, eng *sweep.Engine, file string) (sweep.Autopsy, sweep.Values, []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	facts := sweep.Values{}
	var a sweep.Autopsy
	var notes []string
	for _, e := range readAll(eng, data) {
		switch e.Kind {
		case sweep.LogPhase, sweep.LogReady:
			a.Phases = append(a.Phases, e)
		case sweep.LogSign:
			a.Signs = append(a.Signs, e)
		case sweep.LogBatch:
			a.LastBatch = e.Text
		case sweep.LogFact:
			facts[e.Name] = e.Value
		case sweep.LogNote:
			notes = append(notes, e.Text)
		}
	}
	return a, facts, notes
}

const (
	starting = iota // our readiness check has not passed
	serving         // it has, and a load runs
)

var (
	bySignal9 = sweep.Exit{Code: -1, Signal: 9}
	code1     = sweep.Exit{Code: 1}
	code2     = sweep.Exit{Code: 2}
)

// Real logs: SGLang 0.5.17 on an H200, 0.5.23 on a CPU, and reconstructions of public reports; llama-server
// 11434 on a CPU. The evidence is the number of the line that proves the outcome.
var verdicts = []struct {
	file     string
	state    int
	exit     sweep.Exit
	outcome  sweep.Outcome
	phase    sweep.Phase
	cause    string
	evidence int
	detail   string // a part of it
}{
	{"sglang/b_low", starting, bySignal9, sweep.KVTooSmall, sweep.PhaseKV, "", 41, "raise mem-fraction-static above 0.098"},
	{"sglang/c_12", starting, bySignal9, sweep.OOMKV, sweep.PhaseKV, "", 51, "tried to allocate 2.40 GiB on GPU 0 with 408.31 MiB of 139.80 GiB free"},
	{"sglang/c_993", starting, bySignal9, sweep.OOMGraph, sweep.PhaseGraph, "", 79, "while graphs were captured: tried to allocate 20.00 MiB"},
	{"sglang/c_99", serving, bySignal9, sweep.OOMPrefill, sweep.PhaseLoad, "", 122, "in a prefill: tried to allocate 448.00 MiB"},
	{"sglang/d_prefill", serving, bySignal9, sweep.OOMPrefill, sweep.PhaseLoad, "", 133, "3.50 GiB"},
	{"sglang/f_toobig", starting, bySignal9, sweep.HostShort, sweep.PhaseHostCache, "", 43, "needs 200.00 GB and 116.51 GB are free"},
	{"sglang/tp2_oom_prefill", serving, bySignal9, sweep.OOMPrefill, sweep.PhaseLoad, "", 118, "in a prefill: tried to allocate 20.00 MiB on GPU 1 with 6.31 MiB of 139.80 GiB free"},
	{"sglang/tp2_oom_nccl", starting, bySignal9, sweep.OOMWarmup, sweep.PhaseWarmup, "", 119, "while the server warmed up: NCCL tried to allocate 10485760 bytes"},
	{"sglang/tp2_one_rank_oom", serving, bySignal9, sweep.OOMPrefill, sweep.PhaseLoad, "", 158, "in a prefill: tried to allocate 48.00 MiB on GPU 1 with 20.75 MiB of 139.80 GiB free"},
	{"sglang/tp2_rank_killed", serving, bySignal9, sweep.CrashLoad, sweep.PhaseLoad, "nccl", 147, "another rank went away"},
	{"sglang/g_stop", serving, bySignal9, sweep.CrashLoad, sweep.PhaseLoad, "watchdog", 134, "for 20.0 s"},
	{"sglang/g_kill_parent", serving, bySignal9, sweep.CrashLoad, sweep.PhaseLoad, "killed", 0, "nothing proves who"},
	{"sglang/h_ctx", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 33, "context_length (200000)"},
	{"sglang/h_port2", starting, bySignal9, sweep.BusyPort, sweep.PhaseWarmup, "", 25, "address already in use"},
	{"sglang/h_term_loading", starting, sweep.Exit{Code: -1, Signal: 15}, sweep.Aborted, sweep.PhaseWeights, "", 0, "stopped by outside"},
	{"sglang/args_bad_flag", starting, code2, sweep.BadFlag, sweep.PhaseLaunch, "", 425, "unrecognized arguments: --mem-fraction-statik 0.8"},
	{"sglang/args_bad_int", starting, code2, sweep.BadFlag, sweep.PhaseLaunch, "", 424, "argument --hicache-size: invalid int value: '0.5'"},
	{"sglang/args_chunk_page", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 24, "must be divisible by page_size"},
	{"sglang/args_hicache_noradix", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 25, "mutually exclusive"},
	{"sglang/args_served_colon", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 25, "cannot contain a colon"},
	{"sglang/args_no_hub", starting, code1, sweep.BadModel, sweep.PhaseLaunch, "", 103, "We couldn't connect"},
	{"sglang/args_no_model", starting, code1, sweep.BadModel, sweep.PhaseLaunch, "", 11, "Repo id must be in the form"},
	{"sglang/cpu_bad_config_json", starting, code1, sweep.BadModel, sweep.PhaseLaunch, "", 61, "is not a valid JSON file"},
	{"sglang/cpu_hicache_on_cpu", starting, bySignal9, sweep.BadGPU, sweep.PhaseHostCache, "", 91, "no usable device"},
	{"sglang/cpu_oom_rlimit", starting, bySignal9, sweep.HostShort, sweep.PhaseKV, "", 89, "9209313280 bytes"},
	{"sglang/cpu_port_in_use", starting, sweep.Exit{Code: 3}, sweep.BusyPort, sweep.PhaseWarmup, "", 58, "18100"},
	{"sglang/cpu_tp2", starting, bySignal9, sweep.CrashStart, sweep.PhaseDist, "unknown", 47, "SGLANG_CPU_OMP_THREADS_BIND"},
	{"sglang/cpu_sigint", serving, sweep.Exit{Code: -1, Signal: 2}, sweep.Aborted, sweep.PhaseLoad, "", 71, ""},
	{"sglang/report_C01", starting, bySignal9, sweep.OOMWeights, sweep.PhaseWeights, "", 30, "1.98 GiB"},
	{"sglang/report_C03a", starting, bySignal9, sweep.KVTooSmall, sweep.PhaseKV, "", 20, "raise mem-fraction-static"},
	{"sglang/report_C03b", starting, bySignal9, sweep.OOMGraph, sweep.PhaseGraph, "", 21, "594.00 MiB"},
	{"sglang/report_C04", starting, bySignal9, sweep.KVTooSmall, sweep.PhaseKV, "", 30, "no room"},
	{"sglang/report_C08", starting, bySignal9, sweep.OOMGraph, sweep.PhaseGraph, "", 25, "on GPU 7"},
	{"sglang/report_C10", starting, bySignal9, sweep.BadGPU, sweep.PhaseGraph, "", 21, "no kernel image"},
	{"sglang/report_C12", starting, code1, sweep.CrashStart, sweep.PhaseWeights, "killed", 6, "SIGKILL"},
	{"sglang/report_C15", starting, bySignal9, sweep.HostShort, sweep.PhaseLaunch, "", 8, "Cannot allocate memory"},
	{"sglang/report_C22", starting, bySignal9, sweep.CrashStart, sweep.PhaseDist, "nccl", 10, "unhandled system error"},
	{"sglang/report_C24", starting, bySignal9, sweep.CrashStart, sweep.PhaseWeights, "unknown", 15, "another rank or node"},
	{"sglang/report_C31", starting, code1, sweep.BadModel, sweep.PhaseLaunch, "", 1, "gated repo"},
	{"sglang/report_C33", starting, bySignal9, sweep.BusyGPU, sweep.PhaseDist, "", 39, "somebody else"},
	{"sglang/report_C40", serving, bySignal9, sweep.KVExhausted, sweep.PhaseLoad, "", 9, "decode"},
	{"sglang/report_C41", serving, bySignal9, sweep.KVExhausted, sweep.PhaseLoad, "", 2, "prefill"},
	{"sglang/report_C42", serving, bySignal9, sweep.KVExhausted, sweep.PhaseLoad, "", 7, "request slots"},
	{"sglang/report_C51", serving, bySignal9, sweep.CrashLoad, sweep.PhaseLoad, "detokenizer", 2, "detokenizer"},
	{"sglang/report_C60", serving, bySignal9, sweep.CrashLoad, sweep.PhaseLoad, "cuda", 2, "illegal memory access"},
	{"llamacpp/bad_flag", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 1, "does not know the flag --no-such-flag"},
	{"llamacpp/bad_value", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 1, "-c wants a number"},
	{"llamacpp/bad_enum", starting, code1, sweep.BadFlag, sweep.PhaseLaunch, "", 1, "Unsupported cache type: q9_9"},
	{"llamacpp/quantized_v", starting, code1, sweep.BadFlag, sweep.PhaseKV, "", 7, "flash attention"},
	{"llamacpp/missing_model", starting, code1, sweep.BadModel, sweep.PhaseWeights, "", 7, "No such file or directory"},
	{"llamacpp/corrupt_magic", starting, code1, sweep.BadModel, sweep.PhaseWeights, "", 7, "invalid magic characters"},
	{"llamacpp/corrupt_header", starting, code1, sweep.BadModel, sweep.PhaseWeights, "", 7, "invalid GGUF type"},
	{"llamacpp/corrupt_truncated", starting, code1, sweep.BadModel, sweep.PhaseWeights, "", 7, "not within the file bounds"},
	{"llamacpp/ctx_4M", starting, code1, sweep.HostShort, sweep.PhaseKV, "", 9, "tried to allocate 92160.00 MB"},
	{"llamacpp/port_in_use", starting, code1, sweep.BusyPort, sweep.PhaseLaunch, "", 6, "18081"},
	{"llamacpp/skulk_prebuilt_sigill", starting, sweep.Exit{Code: -1, Signal: 4}, sweep.CrashStart, sweep.PhaseWarmup, "unknown", 0, "built for another processor"},
	{"llamacpp/report_C32", starting, code1, sweep.BadModel, sweep.PhaseWeights, "", 4, "failed to open GGUF file"},
	{"llamacpp/report_C38", starting, code1, sweep.OOMKV, sweep.PhaseKV, "", 5, "KV pool"},
}

func TestVerdicts(t *testing.T) {
	all := logs(t)
	for _, c := range verdicts {
		t.Run(c.file, func(t *testing.T) {
			file := "testdata/" + c.file + ".log"
			a, _, _ := examine(t, all[file], file)
			exit := c.exit
			a.Exit, a.Ready, a.Loading = &exit, c.state == serving, c.state == serving
			got := all[file].Verdict(a)
			if got.Outcome != c.outcome || got.Phase != c.phase || got.Cause != c.cause {
				t.Errorf("have %s in %s (%s), want %s in %s (%s)", got.Outcome, got.Phase, got.Cause, c.outcome, c.phase, c.cause)
			}
			line := 0
			if got.Evidence != nil {
				line = got.Evidence.Line
			}
			if line != c.evidence {
				t.Errorf("evidence is line %d, want %d: %+v", line, c.evidence, got.Evidence)
			}
			if !strings.Contains(got.Detail, c.detail) {
				t.Errorf("detail %q lacks %q", got.Detail, c.detail)
			}
		})
	}
}

// What servers print while they live is no cause of an end that came later without a word.
func TestSurvived(t *testing.T) {
	all := logs(t)
	for _, name := range []string{"sglang/good", "sglang/e_retract", "sglang/f_hicache", "sglang/report_C48a_warn", "sglang/report_OK_sglang_2025-01", "llamacpp/good", "llamacpp/report_C35"} {
		file := "testdata/" + name + ".log"
		a, _, _ := examine(t, all[file], file)
		a.Ready, a.Loading, a.Exit = true, true, &sweep.Exit{Code: -1, Signal: 11}
		got := all[file].Verdict(a)
		stopped := got.Outcome == sweep.Aborted // the recording ends in a stop
		if got.Outcome != sweep.CrashLoad && !stopped || got.Cause != "unknown" && !stopped {
			t.Errorf("%s: have %s (%s) from %+v", name, got.Outcome, got.Cause, got.Evidence)
		}
	}
}

func TestVerdictWithoutWords(t *testing.T) {
	last := &sweep.Evidence{Line: 7, Text: "last"}
	sign := func(p int, o sweep.Outcome, line int, rank string) sweep.LogEvent {
		return sweep.LogEvent{Kind: sweep.LogSign, Rank: rank, Sign: sweep.Sign{Priority: p, Outcome: o}, Evidence: sweep.Evidence{Line: line, Offset: int64(line)}}
	}
	phase := func(p sweep.Phase, line int, rank string) sweep.LogEvent {
		return sweep.LogEvent{Kind: sweep.LogPhase, Phase: p, Rank: rank, Evidence: sweep.Evidence{Line: line, Offset: int64(line)}}
	}
	killed := sign(classDeath, sweep.CrashStart, 3, "")
	killed.Sign.Cause = "killed"
	sigquit := sweep.LogEvent{Kind: sweep.LogSign, Sign: sweep.Sign{Effect: true, Priority: classStopped}, Evidence: sweep.Evidence{Line: 4, Text: "Received sigquit from a child process"}}
	nine := &sweep.Exit{Code: -1, Signal: 9}
	for name, c := range map[string]struct {
		autopsy sweep.Autopsy
		want    sweep.Ending
	}{
		"a hang before ready":             {sweep.Autopsy{Hang: true, Phase: sweep.PhaseWeights, Last: last}, sweep.Ending{Outcome: sweep.HangStart, Phase: sweep.PhaseWeights, Evidence: last}},
		"a hang under load":               {sweep.Autopsy{Hang: true, Ready: true, Loading: true, Phase: sweep.PhaseLoad}, sweep.Ending{Outcome: sweep.HangLoad, Phase: sweep.PhaseLoad}},
		"a hang after an OOM":             {sweep.Autopsy{Hang: true, Signs: []sweep.LogEvent{sign(classOOM, "", 2, "")}, Phases: []sweep.LogEvent{phase(sweep.PhaseKV, 1, "")}}, sweep.Ending{Outcome: sweep.OOMKV, Phase: sweep.PhaseKV}},
		"slow, whatever was said":         {sweep.Autopsy{Slow: true, Phase: sweep.PhaseGraph, Signs: []sweep.LogEvent{sign(classOOMAny, "", 2, "")}}, sweep.Ending{Outcome: sweep.SlowStart, Phase: sweep.PhaseGraph}},
		"slow because of the port":        {sweep.Autopsy{Slow: true, Signs: []sweep.LogEvent{sign(classPort, sweep.BusyPort, 2, "")}}, sweep.Ending{Outcome: sweep.BusyPort, Phase: sweep.PhaseLaunch}},
		"killed, proved":                  {sweep.Autopsy{OOMKills: 1, Exit: nine, Signs: []sweep.LogEvent{killed, sigquit}, Phase: sweep.PhaseWeights}, sweep.Ending{Outcome: sweep.HostKilled, Phase: sweep.PhaseWeights, Evidence: &killed.Evidence}},
		"killed, not proved":              {sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{killed, sigquit}}, sweep.Ending{Outcome: sweep.CrashStart, Cause: "killed", Phase: sweep.PhaseLaunch, Evidence: &killed.Evidence}},
		"137 alone":                       {sweep.Autopsy{Exit: nine, Phase: sweep.PhaseWeights}, sweep.Ending{Outcome: sweep.CrashStart, Cause: "killed", Phase: sweep.PhaseWeights}},
		"137 by itself":                   {sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{sigquit}, Phase: sweep.PhaseWeights}, sweep.Ending{Outcome: sweep.CrashStart, Cause: "unknown", Phase: sweep.PhaseWeights, Evidence: &sigquit.Evidence}},
		"host memory beats the kill":      {sweep.Autopsy{OOMKills: 1, Exit: nine, Signs: []sweep.LogEvent{sign(classHost, sweep.HostShort, 2, "")}}, sweep.Ending{Outcome: sweep.HostShort, Phase: sweep.PhaseLaunch}},
		"an OOM beside a stranger":        {sweep.Autopsy{Exit: nine, Foreign: true, Signs: []sweep.LogEvent{sign(classOOM, "", 2, "")}}, sweep.Ending{Outcome: sweep.BusyGPU, Phase: sweep.PhaseLaunch}},
		"our own stop":                    {sweep.Autopsy{Exit: &sweep.Exit{Code: -1, Signal: 9, By: "sweep"}, Ready: true, Phase: sweep.PhaseStop}, sweep.Ending{Outcome: sweep.Aborted, Phase: sweep.PhaseStop}},
		"each rank has its phase":         {sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{sign(classOOM, "", 9, "TP1")}, Phases: []sweep.LogEvent{phase(sweep.PhaseWeights, 1, "TP1"), phase(sweep.PhaseGraph, 2, "TP0")}}, sweep.Ending{Outcome: sweep.OOMWeights, Phase: sweep.PhaseWeights}},
		"a later mark is no phase of it":  {sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{sign(classOOM, "", 2, "")}, Phases: []sweep.LogEvent{phase(sweep.PhaseKV, 1, ""), phase(sweep.PhaseGraph, 3, "")}}, sweep.Ending{Outcome: sweep.OOMKV, Phase: sweep.PhaseKV}},
		"the last batch, without a stack": {sweep.Autopsy{Exit: nine, Ready: true, Loading: true, LastBatch: "decode", Signs: []sweep.LogEvent{sign(classOOM, "", 2, "")}}, sweep.Ending{Outcome: sweep.OOMDecode, Phase: sweep.PhaseLoad}},
		"it lives":                        {sweep.Autopsy{Ready: true, Phase: sweep.PhaseReady}, sweep.Ending{Phase: sweep.PhaseReady}},
		"ready in its log, not for us":    {sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{sign(classOOM, "", 3, "")}, Phases: []sweep.LogEvent{{Kind: sweep.LogReady, Phase: sweep.PhaseReady, Evidence: sweep.Evidence{Offset: 2}}}}, sweep.Ending{Outcome: sweep.OOMWarmup, Phase: sweep.PhaseWarmup}},
		"the earliest of the strongest":   {sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{sign(classRuntime, sweep.CrashStart, 1, ""), sign(classHost, sweep.HostShort, 2, ""), sign(classHost, sweep.BadGPU, 3, "")}}, sweep.Ending{Outcome: sweep.HostShort, Phase: sweep.PhaseLaunch}},
	} {
		got := verdict(c.autopsy)
		if got.Outcome != c.want.Outcome || got.Phase != c.want.Phase || got.Cause != c.want.Cause {
			t.Errorf("%s: have %s in %q (%s), want %s in %q (%s)", name, got.Outcome, got.Phase, got.Cause, c.want.Outcome, c.want.Phase, c.want.Cause)
		}
		if c.want.Evidence != nil && (got.Evidence == nil || got.Evidence.Line != c.want.Evidence.Line) {
			t.Errorf("%s: evidence %+v, want %+v", name, got.Evidence, c.want.Evidence)
		}
	}
	if got := verdict(sweep.Autopsy{Exit: nine, Signs: []sweep.LogEvent{sigquit}}); got.Exit.By != "server" || nine.By != "" {
		t.Errorf("who sent the signal: %+v; the autopsy's own: %+v", got.Exit, nine)
	}
}
