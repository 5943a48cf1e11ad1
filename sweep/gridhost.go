package sweep

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// path reads the path of something next to the GPUs. A leading "~" stands for the user's home, as long as that is here.
func (r *reading) path(n *yaml.Node, what string) (string, bool) {
	if s := n.Value; n.Kind == yaml.ScalarNode && (s == "~" || strings.HasPrefix(s, "~/")) && r.onSSH() {
		r.problem(n, "write the folder in full", "%s is %q, and it is on a host whose home is not known here", what, s)
		return "", false
	}
	return r.localPath(n, what)
}

// localPath reads text in which a leading "~" stands for the user's home.
func (r *reading) localPath(n *yaml.Node, what string) (string, bool) {
	s, ok := r.text(n, what)
	if !ok {
		return "", false
	}
	if s == "" {
		r.problem(n, "write a value, or leave the key out", "%s is empty", what)
		return "", false
	}
	if s[0] != '~' {
		return s, true
	}
	rest, home := strings.CutPrefix(s, "~/")
	switch {
	case s != "~" && !home:
		r.problem(n, "write the folder in full", "%s is %q, and only ~ and ~/… are known", what, s)
	case r.Home == "":
		r.problem(n, "write the folder in full", "%s is %q, but this user has no home", what, s)
	default:
		return filepath.Join(r.Home, rest), true
	}
	return "", false
}

// readCommand reads the argv prefix: a list of words, or one word. No shell ever reads it.
func (r *reading) readCommand(n *yaml.Node) {
	const example = "[/opt/venv/bin/python, -m, sglang.launch_server]"
	words := []*yaml.Node{n}
	if n.Kind != yaml.ScalarNode {
		words = r.items(n, "command", example)
		if n.Kind == yaml.SequenceNode && len(words) == 0 {
			r.problem(n, "write the words, or leave the key out", "command is empty")
		}
	}
	for _, word := range words {
		s, ok := r.path(word, "a word of the command")
		if ok && n.Kind == yaml.ScalarNode && strings.ContainsAny(s, " \t") {
			list := "[" + strings.Join(strings.Fields(s), ", ") + "]"
			r.problem(n, "write a list of words: "+clip(list), "command is a line of text, and no shell takes it apart")
			continue
		}
		if ok {
			r.grid.Command = append(r.grid.Command, s)
		}
	}
}

func (r *reading) readWorkdir(n *yaml.Node) {
	s, ok := r.path(n, "workdir")
	if ok && !strings.HasPrefix(s, "/") && !filepath.IsAbs(s) {
		r.problem(n, "begin it with / or ~/", "workdir %q is no absolute folder", s)
		return
	}
	r.grid.Workdir = s
}

var (
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	reference = regexp.MustCompile(`\$\{env:[A-Za-z_][A-Za-z0-9_]*\}`)
	secretEnd = regexp.MustCompile(`(?i)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$`)
)

// EnvReferences lists the names of the environment variables that a value of env refers to.
func EnvReferences(value string) []string {
	var names []string
	for _, ref := range reference.FindAllString(value, -1) {
		names = append(names, ref[len("${env:"):len(ref)-1])
	}
	return names
}

// SecretName reports an environment variable whose value is likely a secret: a part of its name ends in
// such a word. TOKENIZERS_PARALLELISM is none.
func SecretName(name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(name, func(c rune) bool { return c == '_' || c == '-' }), secretEnd.MatchString)
}

// readEnv reads the server's environment. Secrets come in by reference only, so that a grid can be
// shared and kept with its night.
func (r *reading) readEnv(n *yaml.Node) {
	for _, f := range r.fields(n, "env", "{NAME: value}") {
		s, ok := r.text(f.value, f.name)
		switch {
		case !envName.MatchString(f.name):
			r.problem(f.key, "use letters, digits and _", "%q is no name of an environment variable", f.name)
		case !ok:
		case strings.Contains(reference.ReplaceAllString(s, ""), "${"):
			r.problem(f.value, "write ${env:NAME}", "%s holds a ${ that begins no reference", f.name)
		case SecretName(f.name) && s != "" && !reference.MatchString(s):
			r.problem(f.value, fmt.Sprintf(`write "${env:%s}"`, f.name), "%s looks like a secret in plain text", f.name)
		default:
			r.grid.Env = append(r.grid.Env, Param{f.name, s})
		}
	}
}

// readHosts reads where launches run.
func (r *reading) readHosts(n *yaml.Node) {
	for i, item := range r.items(n, "hosts", "[{gpus: all}]") {
		fields := r.section(item, "a host", "{gpus: [0, 1]}", "ssh", "gpus", "strangers", "gpu_reset", "recover", "simulate",
			"transport", "host_key", "ssh_config", "dir", "lease")
		host := HostSpec{Name: "local"}
		if i > 0 {
			host.Name = fmt.Sprintf("local-%d", i+1)
		}
		if r.readSSH(fields, &host) {
			host.Name = sshName(host.SSH.Target, r.grid.Hosts)
		}
		r.readTrouble(fields, &host)
		if f, ok := fields["simulate"]; ok {
			host.Simulate = r.readSimulate(f.value)
		}
		before := len(r.problems)
		var gpus []*yaml.Node
		if f, ok := fields["gpus"]; ok {
			host.GPUs, gpus = r.readGPUs(f.value)
		}
		if len(r.problems) == before {
			r.checkGPUs(item, gpus, host, r.grid.Hosts)
		}
		r.grid.Hosts = append(r.grid.Hosts, host)
	}
}

// checkGPUs notes devices that two entries for one machine hold: their launches would run at the same time.
func (r *reading) checkGPUs(item *yaml.Node, gpus []*yaml.Node, host HostSpec, others []HostSpec) {
	const remedy = "give each entry its own gpus"
	for _, other := range others {
		switch {
		case other.Simulate != host.Simulate || other.machine() != host.machine():
		case other.GPUs == nil || host.GPUs == nil:
			r.problem(item, remedy, "%s and %s are the same machine, and one of them takes all of its GPUs", other.Name, host.Name)
			return
		default:
			for i, gpu := range host.GPUs {
				if slices.Contains(other.GPUs, gpu) {
					r.problem(gpus[i], remedy, "%s takes GPU %s, which %s has", host.Name, gpu, other.Name)
				}
			}
		}
	}
}

func (r *reading) defaultHosts() {
	if len(r.grid.Hosts) == 0 {
		r.grid.Hosts = []HostSpec{{Name: "local"}}
	}
}

func (r *reading) readSimulate(n *yaml.Node) string {
	s, ok := r.text(n, "simulate")
	if !ok || !r.folderName(n, s, "profile", "name a profile of the simulator") {
		return ""
	}
	if r.Profiles != nil && !slices.Contains(r.Profiles, s) {
		r.problem(n, didYouMean(s, r.Profiles), "unknown profile %q", s)
	}
	return s
}

var (
	gpuIndex = regexp.MustCompile(`^[0-9]{1,3}$`)
	gpuUUID  = regexp.MustCompile(`^(GPU|MIG)-[0-9A-Fa-f-]{8,60}$`)
	clock    = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

// readGPUs reads "all" as nil, or a list of indexes and UUIDs.
func (r *reading) readGPUs(n *yaml.Node) (gpus []string, nodes []*yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "all" {
		return nil, nil
	}
	items := r.items(n, "gpus", "all, or a list as in [0, 1]")
	if n.Kind == yaml.SequenceNode && len(items) == 0 {
		r.problem(n, "write all, or a list as in [0, 1]", "gpus is empty")
	}
	for _, item := range items {
		s, ok := r.text(item, "a GPU")
		switch {
		case !ok:
		case r.zeroed(item, "a GPU"):
		case !gpuUUID.MatchString(s) && !gpuIndex.MatchString(s):
			r.problem(item, "write an index as in 4, or a UUID as nvidia-smi -L shows it", "%q names no GPU", s)
		case slices.Contains(gpus, s):
			r.problem(item, "keep one of the two", "GPU %s is given twice", s)
		default:
			gpus, nodes = append(gpus, s), append(nodes, item)
		}
	}
	return gpus, nodes
}

// readTrouble reads what a launch does about others on its GPUs, and about GPUs that do not come back.
func (r *reading) readTrouble(fields map[string]field, host *HostSpec) {
	if f, ok := fields["strangers"]; ok {
		switch s, ok := r.text(f.value, "strangers"); {
		case !ok || s == "fail":
		case s == string(StrangersWait), s == string(StrangersSkip):
			host.Strangers = Strangers(s)
		default:
			r.problem(f.value, "write fail, wait or skip", "unknown policy %q for strangers", s)
		}
	}
	if f, ok := fields["gpu_reset"]; ok {
		switch s, ok := r.text(f.value, "gpu_reset"); {
		case !ok || s == "off" || s == "false":
		case s == "on", s == "true":
			host.Recover.Reset = true
		default:
			r.problem(f.value, "write on or off", "gpu_reset is on or off, not %q", s)
		}
	}
	f, ok := fields["recover"]
	if !ok {
		return
	}
	words := []*yaml.Node{f.value}
	if f.value.Kind != yaml.ScalarNode {
		if words = r.items(f.value, "recover", "[/opt/recover.sh]"); f.value.Kind == yaml.SequenceNode && len(words) == 0 {
			r.problem(f.value, "write the words of a command", "recover is empty")
		}
	}
	for i, word := range words {
		s, ok := r.path(word, "a word of recover")
		if ok && i == 0 && !filepath.IsAbs(s) {
			r.problem(word, "begin it with / or ~/: it runs next to the GPUs, from another folder", "the command of recover, %q, has no absolute path", s)
		} else if ok {
			host.Recover.Hook = append(host.Recover.Hook, s)
		}
	}
}

func (r *reading) readUntil(n *yaml.Node) {
	if _, both := r.top["budget"]; both {
		r.problem(r.top["budget"].key, "keep one of the two", `"until" and "budget" bound the same night`)
	}
	if s, ok := r.text(n, "until"); ok && !clock.MatchString(s) {
		r.problem(n, `write a time of day as in "07:30"`, "until is a time of day, not %q", s)
	} else if ok {
		r.grid.Until = s
	}
}

func (r *reading) readBudget(n *yaml.Node) {
	r.grid.Budget, _ = r.duration(n, "budget", time.Second)
}
