package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// mostSigners is how many keys are offered: servers close the connection after six tries.
const mostSigners = 5

// Keyring collects the keys that may open a host. Encrypted files are asked for once and stay in memory, so that a
// reconnect in the night needs nobody. Several hosts may share one.
type Keyring struct {
	Ask func(file string) ([]byte, error) // a passphrase of a key; nil: nobody can be asked

	mu       sync.Mutex
	unlocked map[string]ssh.Signer
}

// signers are the keys for a target in the order in which they are offered: named files first, then the agent's. All
// are in one list because the library tries only the first method of each kind. warnings say what was passed over.
func (k *Keyring) signers(t sshTarget) (signers []ssh.Signer, warnings []string, closeAgent func(), err error) {
	closeAgent = func() {}
	held, agentErr := []ssh.Signer(nil), error(nil)
	if t.agent != "" {
		if held, closeAgent, agentErr = agentSigners(t.agent); agentErr != nil {
			warnings = append(warnings, fmt.Sprintf("the key agent at %s does not answer (%v)", t.agent, agentErr))
		}
	}
	wanted := [][]byte{} // public keys that the configuration names
	for _, file := range t.identities {
		if pub := publicOf(file); pub != nil {
			wanted = append(wanted, pub.Marshal())
		}
	}
	isWanted := func(s ssh.Signer) bool {
		pub := s.PublicKey()
		if cert, ok := pub.(*ssh.Certificate); ok {
			pub = cert.Key
		}
		return slices.ContainsFunc(wanted, func(w []byte) bool { return bytes.Equal(w, pub.Marshal()) })
	}
	add := func(s ssh.Signer) {
		if !slices.ContainsFunc(signers, func(o ssh.Signer) bool { return sameKey(o.PublicKey(), s.PublicKey()) }) {
			signers = append(signers, s)
		}
	}
	for _, s := range held { // a named key that the agent holds needs no passphrase
		if isWanted(s) {
			add(s)
		}
	}
	for _, file := range t.identities {
		if pub := publicOf(file); pub != nil && slices.ContainsFunc(signers, func(s ssh.Signer) bool { return sameKey(s.PublicKey(), pub) }) {
			continue
		}
		s, err := k.load(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("key %s: %v", file, err))
		default:
			for _, c := range withCertificates(s, append([]string{file + "-cert.pub"}, t.certificates...)) {
				add(c)
			}
		}
	}
	if !t.identitiesOnly {
		for _, s := range held {
			add(s)
		}
	}
	if n := len(signers); n > mostSigners {
		warnings = append(warnings, fmt.Sprintf("%d keys could be offered, and a server takes few tries: only the first %d are; name the right one with IdentityFile in your ssh configuration", n, mostSigners))
		signers = signers[:mostSigners]
	}
	signers = slices.DeleteFunc(signers, func(s ssh.Signer) bool {
		kind := s.PublicKey().Type()
		touch := strings.HasPrefix(kind, "sk-")
		if touch {
			warnings = append(warnings, fmt.Sprintf("key %s wants a touch for each connection, which nobody gives in the night: it is passed over (transport: openssh takes it)", ssh.FingerprintSHA256(s.PublicKey())))
		}
		return touch
	})
	return signers, warnings, closeAgent, nil
}

// publicOf reads the public half beside a key file; nil when there is none.
func publicOf(file string) ssh.PublicKey {
	data, err := os.ReadFile(file + ".pub")
	if err != nil {
		return nil
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil
	}
	return key
}

// load reads a private key; the passphrase of an encrypted one is asked for once.
func (k *Keyring) load(file string) (ssh.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.unlocked[file]; s != nil {
		return s, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(data)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		if k.Ask == nil {
			return nil, errors.New("it has a passphrase, and nobody can be asked for it here: add it to your key agent with ssh-add")
		}
		var phrase []byte
		if phrase, err = k.Ask(file); err != nil {
			return nil, err
		}
		s, err = ssh.ParsePrivateKeyWithPassphrase(data, phrase)
	}
	if err != nil {
		return nil, err
	}
	if k.unlocked == nil {
		k.unlocked = map[string]ssh.Signer{}
	}
	k.unlocked[file] = s
	return s, nil
}

// withCertificates gives the certificates of a key, then the key itself.
func withCertificates(s ssh.Signer, files []string) []ssh.Signer {
	var all []ssh.Signer
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		key, _, _, _, err := ssh.ParseAuthorizedKey(data)
		cert, ok := key.(*ssh.Certificate)
		if err != nil || !ok || !sameKey(cert.Key, s.PublicKey()) {
			continue
		}
		if c, err := ssh.NewCertSigner(cert, s); err == nil {
			all = append(all, c)
		}
	}
	return append(all, s)
}

// agentTime bounds what a key agent may take, for its whole part in a login.
const agentTime = 20 * time.Second

// agentSigners are the keys of the agent at a socket. They sign over its connection, until it is closed.
func agentSigners(socket string) ([]ssh.Signer, func(), error) {
	nothing := func() {}
	conn, err := dialAgent(socket)
	if err != nil {
		return nil, nothing, err
	}
	if err := conn.SetDeadline(time.Now().Add(agentTime)); err != nil {
		return nil, nothing, errors.Join(err, conn.Close())
	}
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil, nothing, errors.Join(err, conn.Close())
	}
	return signers, func() { _ = conn.Close() }, nil
}

func dialAgent(socket string) (net.Conn, error) {
	return net.DialTimeout("unix", socket, 5*time.Second)
}
