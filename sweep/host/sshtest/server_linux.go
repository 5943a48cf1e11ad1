package sshtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

const program = "/usr/sbin/sshd"

// OtherUser is a user beside root for tests, as .ci/setup makes one.
const OtherUser = "sweep-test"

// Target is a server's name in its client configuration.
const Target = "target"

// Server is a real OpenSSH server.
type Server struct {
	Dir    string // keys and configurations
	Home   string // of whoever logs in
	Port   int
	User   string
	Config string // of the client: host [Target]
	Key    string // file of the client's private key

	t   testing.TB
	o   Options
	cmd *exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

// Options say what is special about a server.
type Options struct {
	User    string   // runs it and logs in; empty: root
	Lines   []string // of sshd_config
	Kinds   []string // of its host keys, the first of which the client knows; nil: ed25519
	Env     []string // NAME=VALUE of each command's environment
	Client  []string // of ssh_config, before what else it holds
	Address string   // where it listens; empty: 127.0.0.1
	Netns   string   // network namespace that it runs in; empty: this one
	Port    int      // 0: a free one
	// Program is placed where a first connection would copy it, under Sum; empty: the home is empty.
	Program, Sum string
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("these tests need a real OpenSSH server: apt-get install openssh-server, as .ci/setup does (%v)", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a server for any user")
	}
	s := &Server{t: t, o: o, Dir: Folder(t), Home: Folder(t), User: o.User, Port: o.Port}
	if s.User == "" {
		s.User = "root"
	}
	if s.o.Address == "" {
		s.o.Address = "127.0.0.1"
	}
	if len(s.o.Kinds) == 0 {
		s.o.Kinds = []string{"ed25519"}
	}
	s.check(os.MkdirAll("/run/sshd", 0o755))
	if s.Port == 0 {
		s.Port = FreePort(t)
	}
	for _, kind := range s.o.Kinds {
		s.NewHostKey(kind)
	}
	s.Key = filepath.Join(s.Dir, "client")
	pub := WriteKey(t, s.Key)
	s.Write("authorized_keys", string(ssh.MarshalAuthorizedKey(pub)))
	s.writeConfig()
	s.Know(s.o.Kinds[0])
	s.Config = s.Write("ssh_config", fmt.Sprintf("%s\nHost %s\n  HostName %s\n  Port %d\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile none\n",
		strings.Join(o.Client, "\n"), Target, s.o.Address, s.Port, s.User, s.Key, s.KnownHosts()))
	if o.Program != "" {
		s.Place(o.Program, o.Sum)
	}
	s.Own()
	s.Up()
	t.Cleanup(s.Down)
	return s
}

func (s *Server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Folder is a folder that every user may pass through; those of the testing package are one user's.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sweep-sshd-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Write writes a file into the server's folder and returns its path.
func (s *Server) Write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.Dir, name)
	s.check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// KnownHosts is the client's file of known hosts.
func (s *Server) KnownHosts() string { return filepath.Join(s.Dir, "known_hosts") }

// WriteKey makes a key pair and returns its public half.
func WriteKey(t testing.TB, path string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{path: pem.EncodeToMemory(block), path + ".pub": ssh.MarshalAuthorizedKey(pub)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pub
}

// NewHostKey makes a host key anew. The server shows it from its next start on.
func (s *Server) NewHostKey(kind string) {
	s.t.Helper()
	path := filepath.Join(s.Dir, "host_"+kind)
	for _, p := range []string{path, path + ".pub"} {
		s.check(os.RemoveAll(p))
	}
	args := []string{"-q", "-t", kind, "-N", "", "-f", path}
	if kind == "rsa" {
		args = append(args, "-b", "2048")
	}
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
}

// HostKey is the public half of a host key.
func (s *Server) HostKey(kind string) ssh.PublicKey {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, "host_"+kind+".pub"))
	s.check(err)
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	s.check(err)
	return key
}

// Know has the client know one key of this server, and nothing else.
func (s *Server) Know(kind string) {
	s.t.Helper()
	s.Write("known_hosts", fmt.Sprintf("[%s]:%d %s", s.o.Address, s.Port, ssh.MarshalAuthorizedKey(s.HostKey(kind))))
}

func (s *Server) writeConfig() {
	s.t.Helper()
	var b strings.Builder
	for _, line := range s.o.Lines { // of two the first counts
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintf(&b, "Port %d\nListenAddress %s\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n", s.Port, s.o.Address)
	fmt.Fprintf(&b, "PermitRootLogin yes\nAuthorizedKeysFile %s\nLogLevel VERBOSE\nMaxStartups 100\nSetEnv HOME=%s %s\n",
		filepath.Join(s.Dir, "authorized_keys"), s.Home, strings.Join(s.o.Env, " "))
	for _, kind := range s.o.Kinds {
		fmt.Fprintf(&b, "HostKey %s\n", filepath.Join(s.Dir, "host_"+kind))
	}
	s.Write("sshd_config", b.String())
}

// Own gives keys and home to the user who logs in.
func (s *Server) Own() {
	s.t.Helper()
	if s.User == "root" {
		return
	}
	who := s.credential()
	for _, root := range []string{s.Dir, s.Home} {
		s.check(filepath.Walk(root, func(path string, _ os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, int(who.Uid), int(who.Gid))
		}))
	}
}

func (s *Server) credential() *syscall.Credential {
	s.t.Helper()
	u, err := user.Lookup(s.User)
	if err != nil {
		s.t.Fatalf("these tests need a user to log in as: useradd -m -s /bin/bash %s, as .ci/setup does (%v)", s.User, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	s.check(err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	s.check(err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Place puts a program where a first connection would copy it.
func (s *Server) Place(from, sum string) {
	s.t.Helper()
	bin := filepath.Join(s.Home, ".cache", "sweep", "bin")
	s.check(os.MkdirAll(bin, 0o755))
	to := filepath.Join(bin, "sweep-"+sum)
	if os.Link(from, to) == nil {
		return
	}
	data, err := os.ReadFile(from)
	s.check(err)
	s.check(os.WriteFile(to, data, 0o755))
}

// Up starts the server, also again, and waits until it listens.
func (s *Server) Up() {
	s.t.Helper()
	argv := []string{program, "-D", "-e", "-f", filepath.Join(s.Dir, "sshd_config")}
	if s.o.Netns != "" {
		argv = append([]string{"ip", "netns", "exec", s.o.Netns}, argv...)
	}
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stderr = lockedWriter{&s.mu, &s.log}
	s.cmd.WaitDelay = time.Second // sessions outlive the listener and hold its error output
	if s.User != "root" {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential()}
	}
	s.check(s.cmd.Start())
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(s.o.Address, strconv.Itoa(s.Port)), time.Second)
		if err == nil {
			s.check(conn.Close())
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the server does not come up: %v: %s", err, s.Said())
		}
	}
}

// Down ends the listener and cuts every session of it. What the sessions had started detached goes on.
func (s *Server) Down() {
	if s.cmd == nil {
		return
	}
	sessions := s.Sessions()
	_ = s.cmd.Process.Kill()
	for _, pid := range sessions {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Far is a client configuration like the server's own, by way of a link with a round trip of that length.
func (s *Server) Far(roundTrip time.Duration) (config string) {
	s.t.Helper()
	port := Delay(s.t, s.Port, roundTrip)
	text, err := os.ReadFile(s.Config)
	s.check(err)
	known, err := os.ReadFile(s.KnownHosts())
	s.check(err)
	_, key, _ := strings.Cut(string(known), " ")
	alias := s.Write("known_hosts-far", Target+" "+key)
	far := strings.Replace(string(text), fmt.Sprintf("Port %d", s.Port), fmt.Sprintf("Port %d\n  HostKeyAlias %s", port, Target), 1)
	return s.Write("ssh_config-far", strings.Replace(far, "UserKnownHostsFile "+s.KnownHosts(), "UserKnownHostsFile "+alias, 1))
}

// PID is the listener's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Sessions are the server's processes for one connection each.
func (s *Server) Sessions() []int {
	var pids []int
	for _, pid := range children(s.cmd.Process.Pid) {
		pids = append(pids, pid)
		for _, below := range children(pid) {
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", below)); err == nil && strings.HasPrefix(string(comm), "sshd") {
				pids = append(pids, below)
			}
		}
	}
	return pids
}

func children(pid int) []int {
	var pids []int
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // it has ended
	for field := range strings.FieldsSeq(string(data)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// Said is the server's own log.
func (s *Server) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// FreePort is a port of 127.0.0.1 on which nothing listens.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
