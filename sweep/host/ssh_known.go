package host

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"sweep/sweep"
)

// knownKeys is what a user's known_hosts files say of one host.
type knownKeys struct {
	name        string // as it stands in the files: "host" or "[host]:port"
	keys        []knownKey
	authorities []ssh.PublicKey
	revoked     []ssh.PublicKey
}

type knownKey struct {
	key   ssh.PublicKey
	where string // file:line
}

// readKnown reads what files say of a host. Files that are not there say nothing, and lines that cannot be read are
// passed over, as OpenSSH does. The library's own reader does not match a name without a port to other ports as
// OpenSSH's wildcards do, and does not say which keys it knows.
func readKnown(files []string, host, port string) (knownKeys, error) {
	k := knownKeys{name: knownhosts.Normalize(net.JoinHostPort(host, port))}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return k, fmt.Errorf("known hosts: %w", err)
		}
		number := 0
		for line := range bytes.Lines(data) {
			number++
			marker, patterns, key, _, _, err := ssh.ParseKnownHosts(line)
			if err != nil || !matchesHost(patterns, k.name) {
				continue
			}
			switch marker {
			case "revoked":
				k.revoked = append(k.revoked, key)
			case "cert-authority":
				k.authorities = append(k.authorities, key)
			case "":
				k.keys = append(k.keys, knownKey{key, fmt.Sprintf("%s:%d", file, number)})
			}
		}
	}
	return k, nil
}

// matchesHost reports whether the first field of a line names the host.
func matchesHost(patterns []string, name string) bool {
	found := false
	for _, p := range patterns {
		if strings.HasPrefix(p, "|1|") {
			found = found || matchesHash(p, name)
			continue
		}
		wanted, negated := strings.CutPrefix(p, "!")
		if !matchesPattern(strings.ToLower(wanted), strings.ToLower(name)) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// matchesPattern matches with * and ?; the brackets of [host]:port are text.
func matchesPattern(pattern, name string) bool {
	escape := strings.NewReplacer("[", `\[`, "]", `\]`, `\`, `\\`)
	ok, err := path.Match(escape.Replace(pattern), name)
	return ok && err == nil
}

// matchesHash compares with a hashed name: |1|salt|HMAC-SHA1 of the name.
func matchesHash(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 {
		return false
	}
	salt, err1 := base64.StdEncoding.DecodeString(parts[2])
	want, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err1 != nil || err2 != nil {
		return false
	}
	h := hmac.New(sha1.New, salt)
	h.Write([]byte(name))
	return hmac.Equal(h.Sum(nil), want)
}

// anyKind are all kinds of host key, in OpenSSH's order.
var anyKind = [][]string{{ssh.KeyAlgoED25519}, {ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521}, {ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}}

// algorithms are the kinds of host key that can be checked, in the order in which they are to be offered. The server
// chooses by the client's order, so a client that does not ask for the kind that it knows is shown another.
func (k knownKeys) algorithms() []string {
	var all []string
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	if len(k.authorities) > 0 {
		add(ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01)
	}
	for _, known := range k.keys {
		if known.key.Type() == ssh.KeyAlgoRSA {
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			add(known.key.Type())
		}
	}
	if len(all) == 0 {
		return slices.Concat(anyKind...)
	}
	return all
}

// hostKeyError is a host whose key is not trusted. It is final: trying again would meet the same key, or an attacker.
type hostKeyError struct{ text string }

func (e *hostKeyError) Error() string { return e.text }

// hostKeyPolicy decides which host keys are trusted.
type hostKeyPolicy struct {
	known     knownKeys
	pinned    string // SHA256:…; empty: known hosts decide
	acceptNew bool   // an unknown host's key is taken and remembered
	file      string // where it is remembered
	hashNames bool
	asked     string // how the user names the host, for a person
}

// check implements [ssh.HostKeyCallback].
func (p *hostKeyPolicy) check(address string, remote net.Addr, key ssh.PublicKey) error {
	plain := key
	if cert, ok := key.(*ssh.Certificate); ok {
		plain = cert.Key
	}
	print := ssh.FingerprintSHA256(plain)
	for _, r := range p.known.revoked {
		if sameKey(r, plain) || isCertBy(key, r) {
			return &hostKeyError{fmt.Sprintf("%s shows a host key that known hosts mark as revoked (%s)", p.asked, print)}
		}
	}
	if p.pinned != "" {
		if print == p.pinned {
			return nil
		}
		return &hostKeyError{fmt.Sprintf("%s shows the host key %s, but host_key says %s: make sure that it is the right machine before you change the grid", p.asked, print, p.pinned)}
	}
	if cert, ok := key.(*ssh.Certificate); ok && len(p.known.authorities) > 0 {
		return p.checkCertificate(address, remote, cert)
	}
	for _, k := range p.known.keys {
		if sameKey(k.key, plain) {
			return nil
		}
	}
	if len(p.known.keys) > 0 {
		k := p.known.keys[0]
		return &hostKeyError{fmt.Sprintf("the host key of %s has CHANGED: it shows %s (%s), but %s has %s. Either the machine was set up anew, or somebody sits in between; when you are sure, remove the old key with: %s",
			p.asked, print, plain.Type(), k.where, ssh.FingerprintSHA256(k.key), sweep.ShellLine([]string{"ssh-keygen", "-R", p.known.name}))}
	}
	if p.acceptNew {
		return p.remember(plain)
	}
	return &hostKeyError{fmt.Sprintf("the host key of %s is not known: it shows %s (%s). Compare that with what the machine's owner says, and make it known with: %s",
		p.asked, print, plain.Type(), p.makeKnown())}
}

func (p *hostKeyPolicy) makeKnown() string {
	host, port, err := net.SplitHostPort(p.known.name)
	if err != nil {
		return sweep.ShellLine([]string{"ssh", p.asked})
	}
	return sweep.ShellLine([]string{"ssh", "-p", port, strings.Trim(host, "[]")})
}

func (p *hostKeyPolicy) checkCertificate(address string, remote net.Addr, cert *ssh.Certificate) error {
	checker := ssh.CertChecker{IsHostAuthority: func(auth ssh.PublicKey, _ string) bool {
		return slices.ContainsFunc(p.known.authorities, func(k ssh.PublicKey) bool { return sameKey(k, auth) })
	}}
	if err := checker.CheckHostKey(address, remote, cert); err != nil {
		return &hostKeyError{fmt.Sprintf("the host certificate of %s does not hold: %s", p.asked, sweep.Printable(err.Error()))}
	}
	return nil
}

// remember adds a host's key to the user's known hosts in one write.
func (p *hostKeyPolicy) remember(key ssh.PublicKey) error {
	name := p.known.name
	if p.hashNames {
		name = knownhosts.HashHostname(name)
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return &hostKeyError{fmt.Sprintf("the host key of %s cannot be remembered: %v", p.asked, err)}
	}
	f, err := os.OpenFile(p.file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return &hostKeyError{fmt.Sprintf("the host key of %s cannot be remembered: %v", p.asked, err)}
	}
	line := knownhosts.Line([]string{name}, key) + "\n"
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	_, err = f.WriteString(line)
	if err = errors.Join(err, f.Close()); err != nil {
		return &hostKeyError{fmt.Sprintf("the host key of %s cannot be remembered: %v", p.asked, err)}
	}
	p.known.keys = append(p.known.keys, knownKey{key, p.file})
	return nil
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func isCertBy(key, authority ssh.PublicKey) bool {
	cert, ok := key.(*ssh.Certificate)
	return ok && sameKey(cert.SignatureKey, authority)
}
