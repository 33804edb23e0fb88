package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// RecordsDir is where records lie beneath a state directory, unless a launch
// is told otherwise.
const RecordsDir = "records"

// Records are the directories of records beneath a state directory, by name,
// which is by time.
func Records(state string) ([]string, error) {
	return recordsWhere(state, func(name string) bool { return !strings.HasPrefix(name, gonePrefix) })
}

// Unfinished are the records beneath a state directory whose removal was cut
// short: [RemoveRecord] takes away what is left of them.
func Unfinished(state string) ([]string, error) {
	return recordsWhere(state, func(name string) bool { return strings.HasPrefix(name, gonePrefix) })
}

func recordsWhere(state string, wanted func(name string) bool) ([]string, error) {
	parent := filepath.Join(state, RecordsDir)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list records: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && wanted(e.Name()) {
			out = append(out, filepath.Join(parent, e.Name()))
		}
	}
	return out, nil
}
