package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"sweep/sweep/host"
)

// programs are this program for the systems of hosts, packed, in a release build; else only a README.
//
//go:embed programs
var programs embed.FS

// carriedPrograms lists what a release build holds. Beside each packed program stands NAME.sum: the SHA-256 and the
// size of what it unpacks to.
func carriedPrograms() (host.Binary, error) {
	b := host.Binary{Sums: map[string]string{}}
	sizes := map[string]int64{}
	for _, arch := range []string{"amd64", "arm64"} {
		data, err := programs.ReadFile("programs/sweep-linux-" + arch + ".sum")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return b, err
		}
		var sum string
		var size int64
		if _, err := fmt.Fscan(bytes.NewReader(data), &sum, &size); err != nil || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
			return b, fmt.Errorf("this build of sweep is damaged: its program for linux/%s has no sum", arch)
		}
		b.Sums[arch], sizes[arch] = sum, size
	}
	b.Open = func(arch string) (io.ReadCloser, int64, error) {
		f, err := programs.Open("programs/sweep-linux-" + arch + ".gz")
		if err != nil {
			return nil, 0, err
		}
		z, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		return struct {
			io.Reader
			io.Closer
		}{z, f}, sizes[arch], nil
	}
	return b, nil
}

// listPrograms writes what a release build holds, once each unpacks to what its sum says.
func listPrograms(w io.Writer) error {
	b, err := carriedPrograms()
	if err != nil {
		return err
	}
	for _, arch := range slices.Sorted(maps.Keys(b.Sums)) {
		r, size, err := b.Open(arch)
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(h, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		if sum := hex.EncodeToString(h.Sum(nil)); sum != b.Sums[arch] || n != size {
			return fmt.Errorf("this build of sweep is damaged: its program for linux/%s is not what its sum says", arch)
		}
		if _, err := fmt.Fprintf(w, "linux/%s %s\n", arch, b.Sums[arch]); err != nil {
			return err
		}
	}
	return nil
}
