package report

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is vendored for the page is what VERSIONS says, byte for byte.
func TestVendoredFiles(t *testing.T) {
	data, err := os.ReadFile("page/VERSIONS")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		sum, name, ok := strings.Cut(sc.Text(), "  ")
		if !ok || strings.HasPrefix(sum, "#") {
			continue
		}
		files++
		content, err := os.ReadFile(filepath.Join("page", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s is not what VERSIONS says", name)
		}
	}
	if files != 3 || !strings.Contains(string(data), "uPlot 1.6.32") {
		t.Errorf("VERSIONS names %d files:\n%s", files, data)
	}
	if strings.Contains(chartJS, "</script") || strings.Contains(pageJS, "</script") || strings.Contains(pageJS, "innerHTML") {
		t.Error("a script would end its own element, or writes markup")
	}
}
