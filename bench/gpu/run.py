#!/usr/bin/env python3
"""Runs sweep on a real GPU and keeps what comes of it. Needs Linux, nvidia-smi, a Python with SGLang, and a sweep binary.

usage: bench/gpu/run.py --sweep PATH [--python PY] [--out DIR] [--steps env,night,kill,load,ssh,ranks,side]

The steps, in the order given:
  env    what this machine is and has                                            -> env.json
  night  grids/h200-sglang.yaml, ten minutes on one card of 141 GB               -> nights/h200-sglang-…
  kill   SIGKILL to a scheduler, a launcher and an agent while a load runs       -> kill.json, nights/kill-…
  load   SGLang's bench_serving and `sweep load` on one server, by turns         -> load.json and the tools' own files
  ssh    bench/gpu/ssh.yaml over SSH to this machine, with the link cut under load -> ssh.json, nights/ssh-…
  ranks  two cards: bench/gpu/ranks.yaml, SIGKILL to one rank, no memory for one  -> ranks.json, nights/ranks-…
  side   two cards: one launch on each, together and alone                       -> nights/side-…, nights/alone-…
At the end all of it is in DIR.tar.xz. Meanwhile monitor.csv gets the cards' and the host's memory, twice a second.
The model is a config of Llama-3-8B's shape and a tokenizer trained on Python's own library; its weights are random.
--simulate PROFILE runs the same with a simulated SGLang (`sweep simulate profiles`), to try this script."""
import argparse, json, os, re, signal, subprocess, sys, tarfile, time
from pathlib import Path

from parts import HERE, Crowd, Kills, Loopback, Monitor, children, grid_for, loading, make_model, running, smi, wait_for

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--sweep", required=True, type=lambda p: str(Path(p).resolve()))
ap.add_argument("--python", default=sys.executable, help="the Python that has SGLang")
ap.add_argument("--out", default="gpu-results", type=lambda p: Path(p).resolve())
ap.add_argument("--steps", default="env,night,kill,load")
ap.add_argument("--model", default="~/.cache/sweep/gpu/model", help="folder of the model; made if it is not there")
ap.add_argument("--simulate", default="", metavar="PROFILE")
ap.add_argument("--window", default="", help="another window for the night, as in 3s")


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


class Box:
    """What every step needs."""

    def __init__(self, a):
        self.a, self.out, self.nights = a, a.out, a.out / "nights"
        self.nights.mkdir(parents=True, exist_ok=True)
        self.monitor = Monitor(self.out / "monitor.csv", self.smi)

    def smi(self, query):
        return smi([self.a.sweep, "simulate", "nvidia-smi", "--profile", self.a.simulate] if self.a.simulate else ["nvidia-smi"], query)

    def grid(self, name, over=None):
        """A grid of this folder for this machine, or for the same machine over SSH."""
        text = grid_for(HERE / name, self.a.model, self.a.python, self.a.simulate, self.a.window)
        path = self.out / Path(name).name
        if over:
            path, text = path.with_suffix(".ssh.yaml"), re.sub(r"- \{", "- {ssh: %s, ssh_config: %s, " % (over.name, over.config), text, count=1)
        path.write_text(text)
        return path

    def write(self, name, value):
        (self.out / name).write_text(json.dumps(value, indent=1) + "\n")

    def start(self, grid):
        """Starts a night and returns its process and, once it is there, its folder."""
        before = set(self.nights.iterdir())
        log = open(self.out / (grid.stem + ".log"), "w")
        table = open(self.out / (grid.stem + ".table.txt"), "w")
        p = subprocess.Popen([self.a.sweep, "run", str(grid), "-o", str(self.nights)], stdout=table, stderr=log)
        new = lambda: next(iter(d for d in set(self.nights.iterdir()) - before if (d / "manifest.json").exists()), None)
        return p, wait_for(new, 120, lambda: p.poll() is not None)

    def ended(self, p, night):
        """Waits for a night's end and says how it went and what it left."""
        p.wait()
        self.monitor.mark("end of " + night.name)
        left = running()
        say(night.name, "exit", p.returncode, "cells", len(cells(night)), "left over:", left or "nothing", "GPU memory", self.smi("memory.used"))
        return {"night": night.name, "exit": p.returncode, "left_over": left, "memory_used_mib": self.smi("memory.used")}


def cells(night):
    try:
        return [json.loads(line) for line in open(night / "cells.jsonl") if line.endswith("\n")]
    except FileNotFoundError:
        return []


def step_env(box):
    ask = lambda *argv: subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.strip()
    code = ("import importlib.metadata as m, json; v = {}\n"
            "for n in 'sglang sglang-kernel torch triton transformers numpy'.split():\n"
            "  try: v[n] = m.version(n)\n"
            "  except Exception: pass\n"
            "print(json.dumps(v))")
    env = {"gpus": box.smi("name,uuid,driver_version,memory.total,memory.used"), "packages": json.loads(ask(box.a.python, "-c", code) or "{}"),
           "python": ask(box.a.python, "-V"), "kernel": ask("uname", "-r"), "cores": os.cpu_count(), "sweep": ask(box.a.sweep, "--version"),
           "memory": {k: int(v.split()[0]) for k, v in (l.split(":", 1) for l in open("/proc/meminfo")) if k in ("MemTotal", "MemAvailable", "SwapTotal")},
           "cgroup": open("/proc/self/cgroup").read().split(), "tools": [t for t in ("nvcc", "g++", "ninja", "sshd") if ask("sh", "-c", "command -v " + t)]}
    box.write("env.json", env)
    say(json.dumps(env))


def step_night(box):
    """A first launch without one good cell ends it: all others would go the same way."""
    grid = box.grid("../../grids/h200-sglang.yaml")
    say(subprocess.run([box.a.sweep, "doctor", str(grid), "-o", str(box.nights)], capture_output=True, text=True).stdout)
    p, night = box.start(grid)
    wait_for(lambda: len(cells(night)) >= 4, 420, lambda: p.poll() is not None)
    if not any(c["outcome"] == "ok" for c in cells(night)):
        say("the first launch gave nothing, so the night is stopped:", [(c["cell"], c["outcome"], c.get("detail")) for c in cells(night)])
        p.send_signal(signal.SIGINT)
    box.write("night.json", box.ended(p, night))


def step_kill(box):
    p, night = box.start(box.grid("kill.yaml"))
    kills = Kills(box, night, p, [("random-seed=1", 1, "scheduler"), ("random-seed=1", 2, "launcher"), ("random-seed=2", 1, "agent")])
    box.write("kill.json", {"trials": kills.run(), **box.ended(p, night), "cells": [(c["cell"], c["outcome"], c.get("detail")) for c in cells(night)]})


def step_ranks(box):
    p, night = box.start(box.grid("ranks.yaml"))
    crowd = Crowd(box.a.python, night, "one-rank-oom", card=1)
    if not box.a.simulate:
        crowd.start()
    kills = Kills(box, night, p, [("one-rank-killed", 1, "scheduler 1")])
    trials = kills.run()
    box.write("ranks.json", {"trials": trials, "crowd": crowd.said, **box.ended(p, night)})


def step_side(box):
    for name in ("side.yaml", "alone.yaml"):
        p, night = box.start(box.grid(name))
        box.write(name.replace("yaml", "json"), box.ended(p, night))


def step_ssh(box):
    """A night over SSH, where every session is cut while the load runs."""
    with Loopback(box.out / "ssh") as link:
        p, night = box.start(box.grid("ssh.yaml", link))
        wait_for(lambda: loading(night), 600, lambda: p.poll() is not None)
        cut = link.cut()
        box.write("ssh.json", {"cut_sessions": cut, **box.ended(p, night)})


def step_load(box):
    """The same load by SGLang's own tool and by ours, on one server, by turns."""
    port, level, count, lengths = 31000, 32, 256, (512, 128)
    model = str(Path(box.a.model).expanduser())
    command = ([box.a.sweep, "simulate", "sglang", "--profile", box.a.simulate, "--speedup", "5"] if box.a.simulate else [box.a.python, "-m", "sglang.launch_server"])
    command += ["--model-path", model, "--load-format", "dummy", "--attention-backend", "triton", "--sampling-backend", "pytorch", "--random-seed", "1",
                "--host", "127.0.0.1", "--port", str(port), "--mem-fraction-static", "0.80", "--enable-metrics", "--served-model-name", "m"]
    server = subprocess.Popen(command, stdout=open(box.out / "load-server.log", "w"), stderr=subprocess.STDOUT, start_new_session=True)
    url, said = "http://127.0.0.1:%d" % port, []
    fetch = lambda path: subprocess.run(["curl", "-s", "-m", "25", "-o", "-", "-w", "\n%{http_code}", url + path], capture_output=True, text=True).stdout
    try:
        if not wait_for(lambda: fetch("/health").endswith("200"), 240, lambda: server.poll() is not None):
            say("the server did not come up, see load-server.log")
            return
        peer = [box.a.python, "-m", "sglang.bench_serving", "--backend", "sglang-oai", "--base-url", url, "--model", "m", "--tokenizer", model, "--dataset-name", "random-ids",
                "--random-input-len", str(lengths[0]), "--random-output-len", str(lengths[1]), "--random-range-ratio", "1", "--num-prompts", str(count),
                "--max-concurrency", str(level), "--warmup-requests", "0", "--disable-tqdm", "--output-file"]
        ours = [box.a.sweep, "load", "--url", url, "--model", "m", "--concurrency", str(level), "--requests", str(count), "--input", str(lengths[0]), "--output", str(lengths[1]),
                "--token-ids", "1000..30000"]
        for turn in range(1, 3):  # the first turn finds kernels that are still to be compiled
            for name, argv in (("bench_serving", peer + [str(box.out / ("bench_serving.%d.jsonl" % turn)), "--seed", str(turn)]),
                               ("sweep", ours + ["--seed", str(turn), "--json", str(box.out / ("sweep-load.%d.json" % turn)),
                                                 "--export", "bench-serving=" + str(box.out / ("sweep-load.%d.as-bench_serving.jsonl" % turn))])):
                before, began = counters(fetch("/metrics")), time.time()
                r = subprocess.run(argv, capture_output=True, text=True, timeout=120)
                after = counters(fetch("/metrics"))
                (box.out / ("load-%s.%d.txt" % (name, turn))).write_text(" ".join(argv) + "\n" + r.stdout + r.stderr)
                grew = {k: after[k] - before.get(k, 0) for k in after if after[k] != before.get(k, 0)}
                said.append({"turn": turn, "tool": name, "exit": r.returncode, "seconds": round(time.time() - began, 2), "server_counted": grew})
                say(json.dumps(said[-1]))
    finally:
        server.send_signal(signal.SIGTERM)
        wait_for(lambda: server.poll() is not None, 40)
        for pid in children(server.pid):
            os.kill(pid, signal.SIGKILL)
        box.write("load.json", {"asked": {"concurrency": level, "requests": count, "input": lengths[0], "output": lengths[1]}, "turns": said, "server_exit": server.poll()})


def counters(text):
    """The counters of tokens in a page of metrics."""
    found = {}
    for name, value in re.findall(r"^sglang:((?:prompt|generation)_tokens_total|num_requests_total)\{[^}]*\} ([0-9.e+]+)$", text, re.M):
        found[name] = found.get(name, 0) + float(value)
    return found


def main():
    a = ap.parse_args()
    box = Box(a)
    if not a.simulate:
        make_model(Path(a.model).expanduser(), a.python)
    box.monitor.start()
    failed = False
    for step in a.steps.split(","):
        say("step", step)
        box.monitor.mark("step " + step)
        try:
            globals()["step_" + step](box)
        except Exception as e:  # what the other steps gave is worth keeping
            failed = True
            say("step", step, "failed:", repr(e))
    box.monitor.stop()
    with tarfile.open(str(a.out) + ".tar.xz", "w:xz", preset=1) as t:
        t.add(a.out, a.out.name)
    say("all of it is in", str(a.out) + ".tar.xz", os.path.getsize(str(a.out) + ".tar.xz"), "bytes")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
