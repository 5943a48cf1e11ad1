package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sweep/sweep"
)

// simulated reports a command that is the simulator: a model is only a name to it.
func simulated(job sweep.Job) bool {
	return job.Simulate != "" || len(job.Command) > 1 && job.Command[0] == "sweep" && job.Command[1] == "simulate"
}

// modelFiles is what can be seen of a job's model before a server reads it.
type modelFiles struct {
	place   string // folder or file; empty: not on this disk
	folder  bool
	remote  string // what a server would do about a model that is not here; empty: it is here
	problem string // why it cannot be read; one sentence
	weights int64  // bytes of the checkpoint's files; 0: not known
}

// hubID is an id of a model hub: few have no owner.
var hubID = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$`)

// lookAtModel finds a job's model on this disk, in the form that its engine takes. environ is the server's.
func lookAtModel(job sweep.Job, form sweep.ModelForm, environ []string) modelFiles {
	var m modelFiles
	path := job.Model
	if !filepath.IsAbs(path) && job.Workdir != "" {
		path = filepath.Join(job.Workdir, path)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		m.place, m.folder = path, true
	case err == nil:
		m.place = path
	case errors.Is(err, fs.ErrPermission):
		m.problem = fmt.Sprintf("model %s may not be read by this user", job.Model)
		return m
	case strings.Contains(job.Model, "://"):
		m.remote = "is read from where its address says"
		return m
	case hubID.MatchString(job.Model) && form == sweep.ModelFolder:
		return lookInHub(job.Model, environ)
	default:
		m.problem = fmt.Sprintf("model %s: no such folder or file on this machine", job.Model)
		return m
	}
	m.examine(job, form)
	return m
}

// variable is a variable's value in an environment; empty when it has none. Of several the last counts.
func variable(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// lookInHub finds a model that the servers' hub client has on this disk.
func lookInHub(id string, environ []string) modelFiles {
	get := func(name string) string { return variable(environ, name) }
	hub := get("HF_HUB_CACHE")
	if hub == "" {
		home := get("HF_HOME")
		if home == "" {
			home = filepath.Join(get("HOME"), ".cache", "huggingface")
		}
		hub = filepath.Join(home, "hub")
	}
	found, _ := filepath.Glob(filepath.Join(hub, "models--"+strings.ReplaceAll(id, "/", "--"), "snapshots", "*", "config.json"))
	if len(found) > 0 {
		m := modelFiles{place: filepath.Dir(found[len(found)-1]), folder: true}
		m.weights = weightBytes(m.place)
		return m
	}
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		if v := strings.ToLower(get(name)); v == "1" || v == "true" || v == "yes" || v == "on" {
			return modelFiles{problem: fmt.Sprintf("model %s is not in %s, and %s keeps the server from fetching it", id, hub, name)}
		}
	}
	return modelFiles{remote: "is not on this disk: the first start downloads it"}
}

// examine reads what a server reads first.
func (m *modelFiles) examine(job sweep.Job, form sweep.ModelForm) {
	if !m.folder {
		m.problem = headProblem(job.Model, m.place, form)
		return
	}
	if form == sweep.ModelGGUF {
		m.problem = fmt.Sprintf("model %s is a folder, and %s reads one .gguf file", job.Model, job.Engine)
		return
	}
	data, err := readSome(filepath.Join(m.place, "config.json"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(m.place, "params.json")); err != nil { // Mistral's own form
			m.problem = fmt.Sprintf("model %s has no config.json: name the folder that holds it", job.Model)
		}
		return
	case err != nil:
		m.problem = fmt.Sprintf("config.json of model %s cannot be read: %v", job.Model, err)
		return
	case !json.Valid(data):
		m.problem = fmt.Sprintf("config.json of model %s is no JSON: fetch the model again", job.Model)
		return
	}
	m.weights = weightBytes(m.place)
	if format, ok := sweep.SettingValue(job.Config.Settings, "load-format"); ok && format == "dummy" {
		m.weights = 0
		return
	}
	m.problem = missingShards(job.Model, m.place)
}

// headProblem says why a file is no model.
func headProblem(model, path string, form sweep.ModelForm) string {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("model %s cannot be read: %v", model, errors.Unwrap(err))
	}
	defer f.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); form == sweep.ModelGGUF && (err != nil || string(head) != "GGUF") {
		return fmt.Sprintf("model %s is no GGUF file: it does not begin with those four letters", model)
	}
	return ""
}

func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<20))
}

// shards are the checkpoint's files as its index lists them.
func shards(dir string) []string {
	data, err := readSome(filepath.Join(dir, "model.safetensors.index.json"))
	if err != nil {
		return nil
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if json.Unmarshal(data, &index) != nil {
		return nil
	}
	seen := map[string]bool{}
	var names []string
	for _, name := range index.Map {
		if !seen[name] && filepath.IsLocal(name) {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// missingShards says which files of a checkpoint are not there, as after a download that was cut short.
func missingShards(model, dir string) string {
	var missing []string
	all := shards(dir)
	for _, name := range all {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("model %s: %d of %d files of its weights are missing, the first is %s: fetch them again", model, len(missing), len(all), missing[0])
	}
	if len(all) > 0 {
		return ""
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Sprintf("model %s cannot be listed: %v", model, errors.Unwrap(err))
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains([]string{".safetensors", ".bin", ".pt", ".pth", ".gguf"}, filepath.Ext(e.Name()))
	}) {
		return fmt.Sprintf("model %s has a config.json but no weights: fetch them, or set load-format: dummy", model)
	}
	return ""
}

// weightBytes is the size of the weights that a server loads: the files of the index, else all safetensors
// files but a second copy in one piece. 0: not known.
func weightBytes(dir string) int64 {
	names := shards(dir)
	if names == nil {
		found, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
		for _, path := range found {
			if name := filepath.Base(path); len(found) == 1 || !strings.HasPrefix(name, "consolidated") {
				names = append(names, name)
			}
		}
	}
	var sum int64
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// tokenizerFiles are names of which a model has at least one; a star stands at the end of a beginning.
var tokenizerFiles = []string{"tokenizer*", "vocab*", "tiktoken*", "tekken.json", "spiece.model", "sentencepiece*", "spm*", "merges.txt"}

// tokenizerProblem says why a model's tokenizer cannot be read; empty: it can, or is not here.
func tokenizerProblem(job sweep.Job, m modelFiles) string {
	dir := m.place
	for _, name := range []string{"tokenizer-path", "tokenizer"} {
		if path, ok := sweep.SettingValue(job.Config.Settings, name); ok {
			if !filepath.IsAbs(path) {
				return "" // an id of the hub
			}
			if info, err := os.Stat(path); err != nil {
				return fmt.Sprintf("%s %s: no such folder or file on this machine", name, path)
			} else if !info.IsDir() {
				return ""
			}
			dir = path
		}
	}
	if dir == "" || dir == m.place && !m.folder {
		return ""
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Sprintf("tokenizer in %s cannot be read: %v", dir, errors.Unwrap(err))
	}
	found := false
	for _, e := range entries {
		if !isTokenizer(e.Name()) {
			continue
		}
		found = true
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Sprintf("%s in %s cannot be read: %v", e.Name(), dir, errors.Unwrap(err))
		}
		head := make([]byte, 64)
		n, _ := f.Read(head) // an empty file is a problem of its own
		_ = f.Close()        // only read from
		if bytes.HasPrefix(head[:n], []byte("version https://git-lfs")) {
			return fmt.Sprintf("%s in %s is only a pointer to a large file: fetch it with git lfs pull", e.Name(), dir)
		}
	}
	if !found {
		return fmt.Sprintf("%s has no tokenizer: no tokenizer.json, tokenizer.model or the like", dir)
	}
	return ""
}

func isTokenizer(name string) bool {
	return strings.HasSuffix(name, ".tiktoken") || slices.ContainsFunc(tokenizerFiles, func(p string) bool {
		begin, open := strings.CutSuffix(p, "*")
		return name == p || open && strings.HasPrefix(name, begin)
	})
}
