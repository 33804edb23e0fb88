package guard

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// linkCache remembers large denied trees that held no file with a name
// elsewhere. A link made outside such a tree since then changes nothing that
// could be asked for more cheaply than by another walk, so what is remembered
// is good for a short while only. Nobody inside can make such a link: the
// tree is behind another mount.
type linkCache struct {
	file    string
	entries map[string]cached
	dirty   bool
}

type cached struct {
	ID FileID    `json:"id"`
	At time.Time `json:"at"`
}

const (
	cacheName = "denied-trees.json"
	cacheTime = 10 * time.Minute
	// cacheFrom is the size from which remembering a tree is worth a file.
	cacheFrom = 500
	cacheSize = 1 << 20
)

// openCache reads the cache. One that can't be read is an empty one: it only
// saves time.
func (g *gate) openCache() *linkCache {
	c := &linkCache{entries: map[string]cached{}}
	s := g.places.state
	if s == nil || s.obj.kind != Dir || !g.trusted(s.obj.uid) || s.obj.mode&(modeGroupWrite|modeOtherWrite) != 0 {
		return c
	}
	c.file = filepath.Join(s.obj.path, cacheName)
	text, err := g.fs.read(c.file, cacheSize)
	if err != nil || json.Unmarshal(text, &c.entries) != nil {
		c.entries = map[string]cached{}
	}
	return c
}

// fresh reports whether a tree was looked through a short while ago.
func (c *linkCache) fresh(o object) bool {
	e, ok := c.entries[o.path]
	age := time.Since(e.At)
	return ok && e.ID == o.id && age >= 0 && age < cacheTime
}

func (c *linkCache) add(o object, entries int) {
	if c.file != "" && entries >= cacheFrom {
		c.entries[o.path] = cached{ID: o.id, At: time.Now()}
		c.dirty = true
	}
}

// save writes the cache whole, and renames it into place.
func (c *linkCache) save() {
	if !c.dirty {
		return
	}
	maps.DeleteFunc(c.entries, func(_ string, e cached) bool { return time.Since(e.At) > cacheTime })
	text, err := json.Marshal(c.entries)
	if err != nil {
		return
	}
	if c.write(text) != nil {
		_ = os.Remove(c.file + ".new") // the next launch walks again
	}
}

func (c *linkCache) write(text []byte) error {
	f, err := os.OpenFile(c.file+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(c.file+".new", c.file); err != nil {
		return &fs.PathError{Op: "rename", Path: c.file, Err: err}
	}
	return nil
}
