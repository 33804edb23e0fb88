package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Plain is an image made of files alone, in the form that engines load (docker
// save's), so that nothing has to be pulled. The same files and
// settings give the same bytes, and so the same ID.
type Plain struct {
	// Files by their path without a leading slash; a name that ends in a slash
	// is a directory.
	Files map[string]File
	// Name is what the image is tagged as: "name:tag".
	Name         string
	Architecture string
	Config       Config
}

// File is one of them.
type File struct {
	Mode    int64
	Link    string // target, for a symbolic link
	Content []byte
	UID     int
}

// Config is what an image says of how it wants to run.
type Config struct {
	Entrypoint  []string            `json:",omitempty"`
	Cmd         []string            `json:",omitempty"`
	Env         []string            `json:",omitempty"`
	User        string              `json:",omitempty"`
	WorkingDir  string              `json:",omitempty"`
	StopSignal  string              `json:",omitempty"`
	Volumes     map[string]struct{} `json:",omitempty"`
	Labels      map[string]string   `json:",omitempty"`
	Healthcheck *struct {
		Test     []string
		Interval time.Duration
	} `json:",omitempty"`
}

// Tar is the archive to load, and the ID that the image will have.
func (i Plain) Tar() (archive []byte, id string, err error) {
	layer, err := i.layer()
	if err != nil {
		return nil, "", err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": i.Architecture, "os": "linux", "created": "1970-01-01T00:00:00Z", "config": i.Config,
		// A builder counts the layers of what it starts from by its history.
		"history": []map[string]string{{"created": "1970-01-01T00:00:00Z", "created_by": "files"}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digestOf(layer)}},
	})
	if err != nil {
		return nil, "", err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digestOf(config) + ".json", "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		text []byte
	}{{"layer.tar", layer}, {digestOf(config) + ".json", config}, {"manifest.json", manifest}} {
		if err := add(w, f.name, File{Mode: 0o644, Content: f.text}); err != nil {
			return nil, "", err
		}
	}
	return out.Bytes(), "sha256:" + digestOf(config), w.Close()
}

// layer is the one layer. Directories that a file needs are made.
func (i Plain) layer() ([]byte, error) {
	files := maps.Clone(i.Files)
	for name := range i.Files {
		for d := parent(name); d != ""; d = parent(d) {
			if _, ok := files[d]; !ok {
				files[d] = File{Mode: 0o755}
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := add(w, name, files[name]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

func parent(name string) string {
	name = strings.TrimSuffix(name, "/")
	return name[:strings.LastIndexByte(name, '/')+1]
}

func add(w *tar.Writer, name string, f File) error {
	h := &tar.Header{Name: name, Mode: f.Mode, Uid: f.UID, Gid: f.UID, Size: int64(len(f.Content)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.Link, 0
	case strings.HasSuffix(name, "/"):
		h.Typeflag, h.Size = tar.TypeDir, 0
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(w, bytes.NewReader(f.Content))
	return err
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
