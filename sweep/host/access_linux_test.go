package host

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"

	"sweep/sweep"
	"sweep/sweep/host/sshtest"
)

// works holds that a host takes a job and gives back what it made.
func works(t *testing.T, h *SSH) {
	t.Helper()
	if err := h.Open(t.Context()); err != nil {
		t.Fatalf("open: %v", err)
	}
	job := sweep.Job{Schema: sweep.Schema, ID: "works/repeat=1", Attempt: 1, Config: sweep.Config{Key: "works"}}
	if err := h.Submit(t.Context(), []sweep.Job{job}); err != nil {
		t.Fatalf("submit: %v", err)
	}
	if err := h.Follow(t.Context(), 0, func(e sweep.Event, _ int64) error {
		if e.Kind == sweep.EventEnd {
			return h.Fetch(t.Context(), e.Dir)
		}
		return nil
	}); err != nil {
		t.Fatalf("follow: %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.Night, filepath.FromSlash(job.Dir(1)), "launch.json")); err != nil {
		t.Error(err)
	}
	if err := h.Clean(t.Context()); err != nil {
		t.Errorf("clean: %v", err)
	}
}

// refused holds that a host is refused for good, in words that hold all of these, and that it is not asked again.
func refused(t *testing.T, s *sshtest.Server, h *SSH, words ...string) {
	t.Helper()
	err := h.Open(t.Context())
	if err == nil {
		t.Fatal("it was opened")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
	if !Final(err) {
		t.Errorf("not final: %v", err)
	}
	if text := err.Error(); sweep.Printable(text) != text {
		t.Errorf("not printable: %q", text)
	}
	if s == nil {
		return
	}
	before := strings.Count(s.Said(), "Connection from")
	if _, again := h.Working(t.Context()); !errors.Is(again, err) && fmt.Sprint(again) != err.Error() {
		t.Errorf("asked again: %v", again)
	}
	if after := strings.Count(s.Said(), "Connection from"); after != before {
		t.Errorf("it was connected again")
	}
}

func TestHostKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t, sshtest.Options{Kinds: []string{"rsa", "ed25519", "ecdsa"}})
	name := fmt.Sprintf("[127.0.0.1]:%d", s.Port)
	line := func(names, kind string) string {
		return names + " " + string(ssh.MarshalAuthorizedKey(s.HostKey(kind)))
	}
	other := sshtest.WriteKey(t, filepath.Join(s.Dir, "other"))
	for _, c := range []struct {
		name   string
		known  string
		pinned string
		accept bool
		wrong  []string // words of the refusal; nil: it is taken
	}{
		{name: "RSA only", known: line(name, "rsa")},
		{name: "hashed", known: line(knownhosts.HashHostname(name), "ed25519")},
		{name: "wildcard", known: line("[127.0.0.*]:*", "ecdsa")},
		{name: "negated", known: line("!"+name+",[127.*]:*", "ecdsa"), wrong: []string{"is not known", ssh.FingerprintSHA256(s.HostKey("ed25519"))}},
		{name: "bad line beside it", known: "garbage\n" + name + " ssh-rsa AAAA\n" + line(name, "ed25519")},
		{name: "unknown", known: line("[127.0.0.1]:1", "ed25519"), wrong: []string{"is not known", "SHA256:", "ssh -p " + fmt.Sprint(s.Port)}},
		{name: "changed", known: name + " " + string(ssh.MarshalAuthorizedKey(other)), wrong: []string{"has CHANGED", ssh.FingerprintSHA256(other), "ssh-keygen -R"}},
		{name: "revoked", known: line(name, "ed25519") + "@revoked " + line("*", "ed25519"), wrong: []string{"revoked"}},
		{name: "pinned", known: "", pinned: ssh.FingerprintSHA256(s.HostKey("ed25519"))},
		{name: "pinned of another kind", known: "", pinned: ssh.FingerprintSHA256(s.HostKey("rsa"))},
		{name: "pinned wrong", known: line(name, "ed25519"), pinned: ssh.FingerprintSHA256(other), wrong: []string{"host_key says " + ssh.FingerprintSHA256(other)}},
		{name: "accept-new", known: "", accept: true},
		{name: "accept-new of a changed one", known: name + " " + string(ssh.MarshalAuthorizedKey(other)), accept: true, wrong: []string{"has CHANGED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			known := filepath.Join(t.TempDir(), "known")
			if err := os.WriteFile(known, []byte(c.known), 0o600); err != nil {
				t.Fatal(err)
			}
			config := filepath.Join(t.TempDir(), "config")
			text, err := os.ReadFile(s.Config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, []byte(strings.ReplaceAll(string(text), s.KnownHosts(), known)), 0o600); err != nil {
				t.Fatal(err)
			}
			h := over(t, s, t.TempDir())
			h.Config, h.HostKey, h.AcceptNew = config, c.pinned, c.accept
			if c.wrong != nil {
				refused(t, s, h, c.wrong...)
				return
			}
			works(t, h)
			if c.accept {
				again := over(t, s, t.TempDir())
				again.Config = config
				if err := again.Open(t.Context()); err != nil {
					t.Errorf("what was accepted is not remembered: %v", err)
				}
			}
		})
	}
}

func TestHostCertificate(t *testing.T) {
	t.Parallel()
	s := startServer(t, sshtest.Options{})
	ca := filepath.Join(s.Dir, "ca")
	authority := sshtest.WriteKey(t, ca)
	sign := exec.Command("ssh-keygen", "-q", "-s", ca, "-I", "host", "-h", "-n", "127.0.0.1", filepath.Join(s.Dir, "host_ed25519.pub"))
	if out, err := sign.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Down()
	config, err := os.ReadFile(filepath.Join(s.Dir, "sshd_config"))
	if err != nil {
		t.Fatal(err)
	}
	s.Write("sshd_config", string(config)+"HostCertificate "+filepath.Join(s.Dir, "host_ed25519-cert.pub")+"\n")
	s.Up()
	s.Write("known_hosts", "@cert-authority [127.0.0.1]:* "+string(ssh.MarshalAuthorizedKey(authority)))
	works(t, over(t, s, t.TempDir()))
	s.Write("known_hosts", "@cert-authority [127.0.0.1]:* "+string(ssh.MarshalAuthorizedKey(s.HostKey("ed25519"))))
	refused(t, s, over(t, s, t.TempDir()), "the host certificate of target does not hold", "no authorities")
}

// keyAgent is a key agent with some keys and then the right one.
func keyAgent(t *testing.T, s *sshtest.Server, others int) string {
	t.Helper()
	ring := agent.NewKeyring()
	for range others {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(sshtest.Folder(t), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	return socket
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t, sshtest.Options{User: sshtest.OtherUser})
	socket := keyAgent(t, s, 8)
	config := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "config")
		text := fmt.Sprintf("Host target\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  UserKnownHostsFile %s\n  %s\n", s.Port, s.User, s.KnownHosts(), strings.Join(lines, "\n  "))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	at := func(config string) *SSH {
		h := over(t, s, t.TempDir())
		h.Config = config
		return h
	}
	pub := s.Key + ".pub"
	copyOnly := filepath.Join(t.TempDir(), "named")
	data, err := os.ReadFile(pub)
	if err == nil {
		err = os.WriteFile(copyOnly+".pub", data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("nine in the agent, one named", func(t *testing.T) {
		works(t, at(config("IdentityAgent "+socket, "IdentityFile "+copyOnly)))
	})
	t.Run("nine in the agent, none named", func(t *testing.T) {
		refused(t, s, at(config("IdentityAgent "+socket, "IdentityFile /nonexistent")), "does not let user sweep-test in", "only the first 5", "IdentityFile")
	})
	t.Run("nine in the agent, only the file's", func(t *testing.T) {
		works(t, at(config("IdentityAgent "+socket, "IdentityFile "+s.Key, "IdentitiesOnly yes")))
	})
	t.Run("no agent there", func(t *testing.T) {
		refused(t, s, at(config("IdentityAgent /nonexistent/socket", "IdentityFile /nonexistent")), "no key was offered", "/nonexistent/socket does not answer")
	})
	locked := filepath.Join(t.TempDir(), "locked")
	if data, err = os.ReadFile(s.Key); err == nil {
		err = os.WriteFile(locked, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", locked).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("passphrase, nobody to ask", func(t *testing.T) {
		refused(t, s, at(config("IdentityAgent none", "IdentityFile "+locked)), "has a passphrase", "ssh-add")
	})
	t.Run("passphrase, asked once", func(t *testing.T) {
		asked := 0
		ring := &Keyring{Ask: func(string) ([]byte, error) { asked++; return []byte("open sesame"), nil }}
		for range 2 {
			h := at(config("IdentityAgent none", "IdentityFile "+locked))
			h.Keys = ring
			works(t, h)
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// oddShell takes only what every shell takes: words, and one word in single quotes without a line break.
const oddShell = `#!/bin/bash
c=$SSH_ORIGINAL_COMMAND
if [ "$c" = sh ]; then exec sh; fi
case $c in "sh -c '"*"'") ;; *) echo "odd: I do not know how to $c" >&2; exit 2;; esac
c=${c#"sh -c '"}; c=${c%"'"}
case $c in *"'"*|*'!'*|*$'\n'*) echo "odd: strange characters" >&2; exit 2;; esac
exec sh -c "$c"
`

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(sshtest.Folder(t), "script")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOddHosts(t *testing.T) {
	t.Parallel()
	t.Run("one session, nothing forwarded, no sftp, odd shell", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{Lines: []string{"MaxSessions 1", "AllowTcpForwarding no", "ForceCommand " + script(t, oddShell)}})
		works(t, over(t, s, t.TempDir())) // it copies the program as well
	})
	t.Run("noisy bashrc", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, sshtest.Options{User: sshtest.OtherUser})
		noise := "echo 'Welcome!'\nprintf '\\033[31mred\\n\\001sweep-relay 0'\necho for stderr >&2\n"
		if err := os.WriteFile(filepath.Join(s.Home, ".bashrc"), []byte(noise), 0o644); err != nil {
			t.Fatal(err)
		}
		works(t, over(t, s, t.TempDir()))
	})
	t.Run("forced command", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{Lines: []string{`ForceCommand printf 'This account is \033[1mnot available\n'`}})
		refused(t, nil, over(t, s, t.TempDir()), "runs no commands", `not available`)
	})
	t.Run("terminal only", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{Lines: []string{"ForceCommand " + script(t, "#!/bin/bash\necho 'pod $ '\nwhile read -r line; do echo \"pod $ $line\"; done\n")}})
		h := over(t, s, t.TempDir())
		h.timing.preamble = 8 * time.Second // waited out once, and within it the host has to answer once
		refused(t, nil, h, "runs no commands", "terminals only")
	})
	t.Run("other system", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{Lines: []string{"ForceCommand " + script(t, "#!/bin/bash\nuname() { if [ \"$1\" = -s ]; then echo Darwin; else echo arm64; fi; }; export -f uname; exec bash -c \"${SSH_ORIGINAL_COMMAND/#sh/bash}\"\n")}})
		refused(t, nil, over(t, s, t.TempDir()), "runs Darwin", "Linux only")
	})
	t.Run("other processor", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		h := over(t, s, t.TempDir())
		h.Binary.Sums = map[string]string{"riscv64": strings.Repeat("0", 64)}
		refused(t, nil, h, "this build of sweep holds a program for riscv64 only")
	})
	for name, c := range map[string]struct {
		flags uintptr
		data  string
		words []string
	}{
		"noexec home":    {unix.MS_NOEXEC, "", []string{"runs no programs from", "noexec", "dir:"}},
		"read-only home": {unix.MS_RDONLY, "", []string{"does not let you write into", "Read-only file system", "dir:"}},
		"full disk":      {0, "size=2m", []string{"MiB free in", "make room"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{})
			if err := unix.Mount("tmpfs", s.Home, "tmpfs", c.flags, c.data); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(s.Home, unix.MNT_DETACH) })
			refused(t, s, over(t, s, t.TempDir()), c.words...)
			if name != "noexec home" {
				return
			}
			h := over(t, s, t.TempDir())
			h.Dir = sshtest.Folder(t)
			works(t, h)
		})
	}
}

func TestSilentPeer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := &SSH{ID: "gpu1", Night: t.TempDir(), Target: l.Addr().String(), Config: os.DevNull, Binary: programHere(t), timing: timing{handshake: 200 * time.Millisecond}}
	defer h.Close()
	if err := h.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer for 200ms") || Final(err) {
		t.Errorf("a peer that says nothing: %v", err)
	}
}

func TestJumps(t *testing.T) {
	t.Parallel()
	gate := startServer(t, sshtest.Options{})
	target := startServer(t, sshtest.Options{User: sshtest.OtherUser})
	closed := startServer(t, sshtest.Options{Lines: []string{"AllowTcpForwarding no"}})
	stanza := func(name string, s *sshtest.Server, more ...string) string {
		return fmt.Sprintf("Host %s\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  %s\n", name, s.Port, s.User, s.Key, s.KnownHosts(), strings.Join(more, "\n  "))
	}
	at := func(name, text string) *SSH {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h := over(t, target, t.TempDir())
		h.Config, h.Target = path, name
		return h
	}
	base := stanza("gate", gate) + stanza("closed", closed) + stanza("far", target, "ProxyJump gate") + stanza("farther", target, "ProxyJump gate,far") + stanza("shut", target, "ProxyJump closed") + stanza("round", target, "ProxyJump round")
	works(t, at("far", base))
	works(t, at("farther", base))
	refused(t, nil, at("shut", base), "closed does not connect on to shut", "forbids forwarding")
	refused(t, nil, at("round", base), "circle")
	refused(t, nil, at("through", base+stanza("through", target, "ProxyCommand nc gate 22")), "transport: openssh")
	gate.Write("known_hosts", "")
	refused(t, nil, at("far", base), "the host key of gate is not known")
	// The parser that stands in where no ssh is installed.
	gate.Know("ed25519")
	h := at("far", base)
	h.ssh = "no-such-ssh"
	works(t, h)
}
