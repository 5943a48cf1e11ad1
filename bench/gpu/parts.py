"""What the steps of run.py are made of."""
import csv, getpass, glob, json, os, re, signal, socket, subprocess, threading, time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def wait_for(found, seconds, over=lambda: False):
    """Asks until found() is true, and returns that; None when over() is true or the time is up."""
    end = time.time() + seconds
    while True:
        last = over()
        got = found()
        if got or last or time.time() > end:
            return got or None
        time.sleep(0.05)


def smi(command, query):
    """One row of values for each card, as nvidia-smi gives them."""
    r = subprocess.run(command + ["--query-gpu=" + query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=30)
    rows = [[int(v) if v.strip().isdigit() else v.strip() for v in line.split(",")] for line in r.stdout.splitlines() if line.strip()]
    return [row[0] for row in rows] if "," not in query else rows


def grid_for(path, model, python, profile, window):
    """A grid with this machine's command, model and, where it is only played, simulator."""
    text = path.read_text()
    command = "[%s, -m, sglang.launch_server]" % json.dumps(python)
    if profile:
        command, model = '[sweep, simulate, sglang, --profile, %s, --speedup, "5"]' % profile, "simulated"
        if re.search(r"^hosts:", text, re.M):
            text = re.sub(r"\{gpus: ", "{simulate: %s, gpus: " % profile, text)
        else:
            text += "\nhosts: [{simulate: %s}]\n" % profile
    text = re.sub(r"^model: .*$", "model: %s\ncommand: %s" % (model, command), text, flags=re.M)
    return re.sub(r"^  window: .*$", "  window: " + window, text, flags=re.M) if window else text


def make_model(folder, python):
    """A config of Llama-3-8B's shape with a small vocabulary, and a tokenizer for it."""
    if not (folder / "tokenizer.json").exists():
        subprocess.run([python, str(HERE / "model.py"), str(folder)], check=True)


def processes():
    """pid -> (parent, name, command line) of all that live."""
    found = {}
    for d in Path("/proc").iterdir():
        if d.name.isdigit():
            try:
                stat = (d / "stat").read_text()
                name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
                if rest[0] != "Z":
                    found[int(d.name)] = (int(rest[1]), name, (d / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
            except (OSError, ValueError):
                pass  # it has just ended
    return found


def children(pid, table=None):
    """All below a process."""
    table = table or processes()
    below, more = set(), {pid}
    while more:
        more = {p for p, (parent, _, _) in table.items() if parent in more} - below
        below |= more
    return below


def running():
    """What is left of servers that sweep started, by the name that each gives its model, and of SGLang's own children."""
    mark = re.compile(r"^sglang::|--served-model-name sweep-[0-9a-f]{8}-")
    return ["%d %s" % (p, c[:120]) for p, (_, _, c) in processes().items() if mark.search(c)]


class Monitor(threading.Thread):
    """Writes memory of cards and host twice a second."""

    def __init__(self, path, ask):
        super().__init__(daemon=True)
        self.path, self.ask, self.marks, self.over = path, ask, [], threading.Event()

    def mark(self, text):
        self.marks.append(text)

    def run(self):
        with open(self.path, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["time", "memory_used_mib_of_each_card", "mem_total_kb", "mem_available_kb", "shmem_kb", "launch_group_bytes", "launch_group_shmem_bytes", "mark"])
            while not self.over.wait(0.5):
                m = dict(line.split(":", 1) for line in open("/proc/meminfo"))
                kb = [m[k].split()[0] for k in ("MemTotal", "MemAvailable", "Shmem")]
                w.writerow(["%.2f" % time.time(), " ".join(map(str, self.ask("memory.used"))), *kb, *self.groups(), self.marks.pop(0) if self.marks else ""])
                f.flush()

    def groups(self):
        """What the control groups of launches hold, and how much of it is shared memory; nothing where there is none."""
        held, shared = [], []
        for folder in glob.glob("/sys/fs/cgroup/**/sweep-*-*", recursive=True):
            try:
                held.append(int(open(folder + "/memory.current").read()))
                shared.append(int(re.search(r"^shmem (\d+)$", open(folder + "/memory.stat").read(), re.M)[1]))
            except (OSError, TypeError):
                pass  # it has just ended, or has no memory controller
        return (sum(held), sum(shared)) if held else ("", "")

    def stop(self):
        self.over.set()
        self.join()


def loading(night, config="", attempt=0):
    """True once answers of a load of this attempt, or of any, arrive."""
    for agent in night.glob("agents/*/events.jsonl"):
        for line in open(agent):
            try:
                e = json.loads(line)
            except ValueError:
                continue  # half written
            if e["kind"] == "progress" and attempt in (0, e.get("attempt")) and e.get("dir", "").startswith("launches/" + config):
                return True
    return False


class Crowd(threading.Thread):
    """Somebody else's process on one card of a launch: it takes what is free there, but for `spare` MiB, when the server is ready, and goes
    when the server has found none left."""

    CODE = ("import sys, torch\n"
            "torch.cuda.set_device(int(sys.argv[1])); torch.zeros(1, device='cuda'); sys.stdin.readline()\n"
            "free = torch.cuda.mem_get_info()[0]; x = torch.empty(max(0, free - (int(sys.argv[2]) << 20)), dtype=torch.uint8, device='cuda')\n"
            "print('took %d of %d free MiB, left %d' % (x.numel() >> 20, free >> 20, torch.cuda.mem_get_info()[0] >> 20), flush=True); sys.stdin.readline()\n")

    def __init__(self, python, night, config, card, spare=150):
        super().__init__(daemon=True)
        self.python, self.card, self.spare, self.said = python, card, spare, ""
        self.folder = night / "launches" / config / "repeat=1" / "attempt=1"

    def run(self):
        log = self.folder / "server.log"
        says = lambda text: log.exists() and text in log.read_text(errors="replace")
        over = lambda: (self.folder / "launch.json").exists()
        if not wait_for(lambda: says("server_args="), 3600):
            return
        p = subprocess.Popen([self.python, "-c", self.CODE, str(self.card), str(self.spare)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if wait_for(lambda: says("fired up and ready"), 240, over):
            p.stdin.write("\n")
            p.stdin.flush()
            self.said = p.stdout.readline().strip()
            print("process", p.pid, self.said, flush=True)
            wait_for(lambda: says("out of memory"), 120, over)
        p.kill()
        p.wait()


class Loopback:
    """An SSH server on the loop-back address, with keys of its own, and a client configuration for it."""

    # What a server needs of this environment; a login has none of it.
    PASSED = re.compile(r"^(PATH|PYTHONPATH|LD_LIBRARY_PATH|(SGLANG|HF|NCCL|GLOO|CUDA|TORCH|NVSHMEM|TVM)_.*)$")

    def __init__(self, folder):
        self.name, self.folder, self.config = "box", folder, folder / "ssh_config"

    def __enter__(self):
        f = self.folder
        f.mkdir(mode=0o700)
        Path("/run/sshd").mkdir(exist_ok=True)
        for key in ("host", "client"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(f / key)], check=True)
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        passed = " ".join('"%s=%s"' % kv for kv in os.environ.items() if self.PASSED.match(kv[0]))
        (f / "sshd_config").write_text("Port %d\nListenAddress 127.0.0.1\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n"
                                       "AuthorizedKeysFile %s\nHostKey %s\nSetEnv %s\n" % (port, f / "client.pub", f / "host", passed))
        (f / "known_hosts").write_text("[127.0.0.1]:%d %s" % (port, (f / "host.pub").read_text()))
        self.config.write_text("Host %s\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n"
                               % (self.name, port, getpass.getuser(), f / "client", f / "known_hosts"))
        self.server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-E", str(f / "sshd.log"), "-f", str(f / "sshd_config")])
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 10)
        return self

    def cut(self):
        """Ends the sessions that there are; new ones are let in."""
        table = processes()
        sessions = [p for p in children(self.server.pid, table) if table[p][1].startswith("sshd")]
        for p in sessions:
            os.kill(p, signal.SIGKILL)
        return len(sessions)

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait()
        for key in ("host", "client"):
            (self.folder / key).unlink()  # they open nothing any more; what is kept can be shown


class Kills:
    """SIGKILLs to processes of a night's launches, each while its load runs, and how long what they held stays."""

    def __init__(self, box, night, process, plan):
        self.box, self.night, self.process, self.plan = box, night, process, plan
        self.base = box.smi("memory.used")

    def run(self):
        return [t for t in (self.trial(*one) for one in self.plan) if t]

    def victim(self, who, owner):
        if who == "agent":
            return json.load(open(next(self.night.glob("agents/*/agent.json"))))["pid"]
        server = owner["server"]["pid"]
        if who == "launcher":
            return server
        table = processes()
        ranks = [p for p in sorted(children(server, table)) if "sglang::schedul" in table[p][1] + table[p][2]]
        return ranks[int(who.removeprefix("scheduler") or 0)]  # they are started in order

    def trial(self, config, attempt, who):
        if not wait_for(lambda: loading(self.night, config + "/", attempt), 3600, lambda: self.process.poll() is not None):
            print("no load of", config, "attempt", attempt, "came", flush=True)
            return None
        folder = next(self.night.glob("launches/%s/repeat=1/attempt=%d" % (config, attempt)))
        owner = json.load(open(folder / "owner.json"))
        pid, table = self.victim(who, owner), processes()
        watched = {"server": owner["server"]["pid"], "supervisor": owner["supervisor"]["pid"]}
        watched |= {"%s %d" % (table[p][1], p): p for p in children(owner["supervisor"]["pid"], table) if p != watched["server"]}
        used = self.box.smi("memory.used")
        began = time.time()
        os.kill(pid, signal.SIGKILL)
        gone = {}

        def watch():
            while len(gone) < len(watched) and time.time() < began + 90:
                now = processes()
                for name, p in watched.items():
                    if p not in now:
                        gone.setdefault(name, round(time.time() - began, 2))
                time.sleep(0.02)

        t = threading.Thread(target=watch)
        t.start()
        freed = wait_for(lambda: all(u <= b for u, b in zip(self.box.smi("memory.used"), self.base)) and time.time(), 90)
        t.join()
        again = folder.with_name("attempt=%d" % (attempt + 1))  # a killed agent writes no launch.json; the next one goes on
        wait_for(lambda: (folder / "launch.json").exists() or again.exists(), 120, lambda: self.process.poll() is not None)
        try:
            ending = json.load(open(folder / "launch.json"))
        except OSError:
            ending = {}
        result = {"victim": who, "pid": pid, "attempt": "%s/%d" % (config, attempt), "memory_used_mib_before": used, "baseline_mib": self.base,
                  "memory_back_s": round(freed - began, 2) if freed else None, "processes_gone_s": gone, "still_there": sorted(set(watched) - set(gone)),
                  "outcome": ending.get("outcome"), "cause": ending.get("cause"), "detail": ending.get("detail"),
                  "evidence": (ending.get("evidence") or {}).get("text"), "exit": ending.get("exit"), "times": ending.get("times")}
        print(json.dumps(result), flush=True)
        return result
