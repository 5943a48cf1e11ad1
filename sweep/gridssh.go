package sweep

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// SSHSpec is how a host is reached over SSH.
type SSHSpec struct {
	Target    string        `json:"target"`              // [user@]host[:port], or a name of the user's ssh configuration
	Transport string        `json:"transport,omitempty"` // "native", or "openssh" for the user's own ssh; empty: native
	HostKey   string        `json:"host_key,omitempty"`  // SHA256:… that the host must show; empty: known hosts decide
	Config    string        `json:"config,omitempty"`    // ssh configuration instead of the user's own, as an absolute path
	Dir       string        `json:"dir,omitempty"`       // folder on the host for sweep's program and nights; empty: below its home
	Lease     time.Duration `json:"lease,omitempty"`     // how long the host works on unwatched; 0: 24 h
}

var (
	sshTarget  = regexp.MustCompile(`^([A-Za-z0-9_.-]+@)?[A-Za-z0-9][A-Za-z0-9_.-]*(:[0-9]{1,5})?$`)
	sshAddress = regexp.MustCompile(`^([A-Za-z0-9_.-]+@)?\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?$`)
	hostKeySum = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
	remoteDir  = regexp.MustCompile(`^(~|/)[A-Za-z0-9_./+=@-]*$`)
)

// sshKeys are the keys of a host that have a meaning only beside ssh.
var sshKeys = []string{"transport", "host_key", "ssh_config", "dir", "lease"}

// readSSH reads how a host is reached. ok is false where it is this machine.
func (r *reading) readSSH(fields map[string]field, host *HostSpec) (ok bool) {
	f, ok := fields["ssh"]
	if !ok {
		for _, key := range sshKeys {
			if f, given := fields[key]; given {
				r.problem(f.key, "add ssh:, or leave it out", "%q is for a host with ssh", key)
			}
		}
		return false
	}
	s := &SSHSpec{}
	if text, ok := r.text(f.value, "ssh"); ok {
		if !sshTarget.MatchString(text) && !sshAddress.MatchString(text) {
			r.problem(f.value, "write a name as in ~/.ssh/config, or user@host:port", "ssh %q is no host", text)
		}
		s.Target = text
	}
	if f, ok := fields["transport"]; ok {
		known := []string{"native", "openssh"}
		if text, ok := r.text(f.value, "transport"); ok && !slices.Contains(known, text) {
			r.problem(f.value, "write native or openssh", "unknown transport %q", text)
		} else if ok {
			s.Transport = text
		}
	}
	if f, ok := fields["host_key"]; ok {
		text, ok := r.text(f.value, "host_key")
		switch {
		case !ok:
		case !hostKeySum.MatchString(text):
			r.problem(f.value, "write it as ssh-keygen -l prints it: SHA256:…", "%q is no fingerprint of a key", clip(text))
		case s.Transport == "openssh":
			r.problem(f.key, "leave one of the two out", "host_key is checked by the native transport only")
		default:
			s.HostKey = text
		}
	}
	r.readSSHPlaces(fields, s)
	host.SSH = s
	return true
}

func (r *reading) readSSHPlaces(fields map[string]field, s *SSHSpec) {
	if f, ok := fields["ssh_config"]; ok {
		if text, ok := r.localPath(f.value, "ssh_config"); ok {
			if !filepath.IsAbs(text) {
				text = filepath.Join(filepath.Dir(r.file), text)
			}
			if abs, err := filepath.Abs(text); err == nil {
				text = abs
			}
			s.Config = text
		}
	}
	if f, ok := fields["dir"]; ok {
		if text, ok := r.text(f.value, "dir"); ok && (!remoteDir.MatchString(text) || text == "/" || strings.Contains(text, "..") || strings.HasPrefix(text, "~") && text != "~" && text[1] != '/') {
			r.problem(f.value, "begin it with / or ~/, and use letters, digits and . _ - + = @", "dir %q is no folder on the host", clip(text))
		} else if ok {
			s.Dir = strings.TrimRight(text, "/")
		}
	}
	if f, ok := fields["lease"]; ok {
		s.Lease, _ = r.duration(f.value, "lease", time.Minute)
	}
}

// sshName is a host's name in a night: the machine's own, with a number behind it when it is taken.
func sshName(target string, taken []HostSpec) string {
	if _, host, ok := strings.Cut(target, "@"); ok {
		target = host
	}
	if host, _, err := net.SplitHostPort(target); err == nil {
		target = host
	}
	name := strings.Trim(strings.Map(func(c rune) rune {
		if c == ':' {
			return '-'
		}
		return c
	}, strings.Trim(target, "[]")), "-.")
	if name == "" || strings.HasPrefix(name, "local") {
		name = "ssh-" + name
	}
	for i, base := 2, name; slices.ContainsFunc(taken, func(h HostSpec) bool { return h.Name == name }); i++ {
		name = fmt.Sprintf("%s-%d", base, i)
	}
	return name
}

// onSSH reports whether any host is reached over SSH: a home of this machine means nothing there.
func (r *reading) onSSH() bool {
	f, ok := r.top["hosts"]
	if !ok || f.value.Kind != yaml.SequenceNode {
		return false
	}
	return slices.ContainsFunc(f.value.Content, func(item *yaml.Node) bool {
		if item.Kind != yaml.MappingNode {
			return false
		}
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value == "ssh" {
				return true
			}
		}
		return false
	})
}
