package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"

	"sweep/sweep"
)

// sshTarget is how a host is reached, as the user's ssh configuration and the grid say.
type sshTarget struct {
	asked          string // as the user wrote it
	host, port     string
	user           string
	identities     []string // key files; those by default may not exist
	certificates   []string
	identitiesOnly bool
	agent          string // socket of the key agent; empty: none
	knownFiles     []string
	keyAlias       string // HostKeyAlias: the name under which its key is known
	acceptNew      bool
	hashNames      bool
	jumps          []string // ProxyJump, in order
	proxyCommand   string
}

// configError is a configuration that cannot work: it is final.
type configError struct{ text string }

func (e *configError) Error() string { return e.text }

// splitTarget takes "user@host:port" apart; user and port may be empty.
func splitTarget(s string) (user, host, port string) {
	user, host, ok := cutLast(s, "@")
	if !ok {
		user, host = "", s
	}
	if h, p, err := net.SplitHostPort(host); err == nil {
		return user, h, p
	}
	return user, strings.Trim(host, "[]"), ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// resolve finds out how a host is reached: from the user's own ssh where there is one, since it knows each rule of
// its configuration, else from a parser of our own. file replaces the user's configuration when it is not empty.
func resolve(ctx context.Context, asked, file, program string) (sshTarget, error) {
	user, host, port := splitTarget(asked)
	if strings.HasPrefix(host, "-") || strings.HasPrefix(user, "-") {
		return sshTarget{}, &configError{fmt.Sprintf("ssh %q is no host", asked)}
	}
	var values map[string][]string
	var err error
	if path, lookErr := exec.LookPath(program); lookErr == nil {
		values, err = askSSH(ctx, path, file, user, host, port)
	} else {
		values, err = readConfig(file, user, host, port)
	}
	if err != nil {
		return sshTarget{}, err
	}
	return targetOf(asked, host, values)
}

// askSSH has ssh itself print what it would do.
func askSSH(ctx context.Context, program, file, user, host, port string) (map[string][]string, error) {
	args := []string{"-G"}
	if file != "" {
		args = append(args, "-F", file)
	}
	if user != "" {
		args = append(args, "-l", user)
	}
	if port != "" {
		args = append(args, "-p", port)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // Match exec runs programs of the user's
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(args, "--", host)...)
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, &configError{fmt.Sprintf("ssh cannot read its configuration for %s: %v%s", host, err, quoteEnd(said.Bytes()))}
	}
	values := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		values[key] = append(values[key], value)
	}
	return values, nil
}

// configKeys are what readConfig asks for, and the separator of values of which there may be several.
var configKeys = []string{"HostName", "User", "Port", "IdentityFile", "CertificateFile", "IdentitiesOnly", "IdentityAgent", "UserKnownHostsFile",
	"GlobalKnownHostsFile", "HostKeyAlias", "StrictHostKeyChecking", "HashKnownHosts", "ProxyJump", "ProxyCommand"}

// readConfig reads the configuration where no ssh is installed.
func readConfig(file, login, host, port string) (map[string][]string, error) {
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, &configError{err.Error()}
		}
		file = filepath.Join(home, ".ssh", "config")
	}
	values := map[string][]string{}
	f, err := os.Open(file)
	switch {
	case err == nil:
		defer f.Close()
		config, err := ssh_config.Decode(f)
		if err != nil {
			return nil, &configError{fmt.Sprintf("%s cannot be read without an ssh client: %v", file, err)}
		}
		for _, key := range configKeys {
			all, err := config.GetAll(host, key)
			if err != nil {
				return nil, &configError{fmt.Sprintf("%s cannot be read without an ssh client: %v", file, err)}
			}
			if len(all) > 0 {
				values[strings.ToLower(key)] = all
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, &configError{err.Error()}
	}
	set := func(key, value string, force bool) {
		if value != "" && (force || values[key] == nil) {
			values[key] = []string{value}
		}
	}
	set("user", login, true)
	set("port", port, true)
	if me, err := user.Current(); err == nil {
		set("user", me.Username, false)
	}
	set("port", "22", false)
	set("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2", false)
	set("globalknownhostsfile", "/etc/ssh/ssh_known_hosts", false)
	if values["identityfile"] == nil {
		values["identityfile"] = []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}
	}
	for key, all := range values {
		for i, v := range all {
			all[i] = expandTokens(v, host, values)
		}
		values[key] = all
	}
	return values, nil
}

// expandTokens replaces the tokens that matter: %h, %r, %p, %%.
func expandTokens(v, host string, values map[string][]string) string {
	name := host
	if h := values["hostname"]; len(h) > 0 {
		name = strings.ReplaceAll(h[0], "%h", host)
	}
	return strings.NewReplacer("%%", "%", "%h", name, "%n", host, "%r", first(values["user"]), "%p", first(values["port"])).Replace(v)
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

func targetOf(asked, host string, values map[string][]string) (sshTarget, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return sshTarget{}, &configError{err.Error()}
	}
	path := func(p string) string {
		p = strings.Trim(p, `"`)
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			return filepath.Join(home, rest)
		}
		return p
	}
	paths := func(all []string) []string {
		var out []string
		for _, p := range all {
			if p != "" && p != "none" {
				out = append(out, path(p))
			}
		}
		return out
	}
	t := sshTarget{
		asked: asked, host: host, port: first(values["port"]), user: first(values["user"]),
		identities: paths(values["identityfile"]), certificates: paths(values["certificatefile"]),
		identitiesOnly: first(values["identitiesonly"]) == "yes", keyAlias: first(values["hostkeyalias"]),
		acceptNew: first(values["stricthostkeychecking"]) == "accept-new", hashNames: first(values["hashknownhosts"]) == "yes",
		knownFiles: paths(strings.Fields(first(values["userknownhostsfile"]) + " " + first(values["globalknownhostsfile"]))),
	}
	if name := first(values["hostname"]); name != "" {
		t.host = name
	}
	if jump := first(values["proxyjump"]); jump != "" && jump != "none" {
		t.jumps = strings.Split(jump, ",")
	}
	if command := first(values["proxycommand"]); command != "none" {
		t.proxyCommand = command
	}
	switch socket := first(values["identityagent"]); socket {
	case "none":
	case "", "SSH_AUTH_SOCK":
		t.agent = os.Getenv("SSH_AUTH_SOCK")
	default:
		t.agent = path(os.ExpandEnv(socket))
	}
	return t, nil
}

// knownName is the name and port under which the target's key is looked up.
func (t sshTarget) knownName() (host, port string) {
	if t.keyAlias != "" {
		return t.keyAlias, "22" // an alias stands without a port
	}
	return t.host, t.port
}

// String names the target for a person.
func (t sshTarget) String() string { return sweep.Printable(t.asked) }
