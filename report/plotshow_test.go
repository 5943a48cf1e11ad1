package report

import (
	"os"
	"path/filepath"
	"testing"
)

// With SWEEP_PICTURES=FOLDER the pictures of every shape of night are written there, to be looked at.
func TestShowPictures(t *testing.T) {
	folder := os.Getenv("SWEEP_PICTURES")
	if folder == "" {
		t.Skip("SWEEP_PICTURES is not set")
	}
	for name, spec := range nights() {
		_, s := spec.read(t)
		for _, d := range s.drawings() {
			if d.skip != "" {
				continue
			}
			data, err := paintPNG(d)()
			if err == nil {
				err = os.MkdirAll(filepath.Join(folder, name), 0o777)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name, d.Name+".png"), data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
