package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// nightName is how the names of nights end.
var nightName = regexp.MustCompile(`-[0-9]{8}T[0-9]{6}Z(-[0-9]+)?$`)

// stumpFiles are what a night's folder can hold before its manifest is there.
var stumpFiles = []string{lockFile, gridFile, gridFile + partSuffix, manifestFile + partSuffix, FilesDir}

// stumpAge is from when on an empty folder is nobody's: between its making and its locking lies less than a moment.
const stumpAge = time.Minute

// removeStumps takes away what is left of nights whose process was killed before they had a manifest: nothing was begun
// in them. What cannot be read or removed stays.
func removeStumps(root string, now time.Time) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && nightName.MatchString(e.Name()) && stump(filepath.Join(root, e.Name()), now) {
			_ = os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}

// stump reports whether a folder is what is left of a night that never began, and nobody is about to begin it.
func stump(dir string, now time.Time) bool {
	files, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool { return !slices.Contains(stumpFiles, f.Name()) }) {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		info, err := os.Stat(dir)
		return err == nil && len(files) == 0 && now.Sub(info.ModTime()) > stumpAge
	}
	if err != nil {
		return false
	}
	defer f.Close()
	free, err := tryLock(f)
	return free && err == nil
}
