package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"syscall"
)

// maxIndex bounds the index that is read: about 300,000 files.
const maxIndex = 32 << 20

// gitlinkMode is that of an entry that stands for a commit of another
// repository, gitformat-index(5).
const gitlinkMode = 0o160000

// gitlinks are the names of an index's gitlinks: none where there is no index,
// nil where it can't be read.
func gitlinks(path string) map[string]bool {
	b, err := readRegular(path, maxIndex)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return map[string]bool{}
	}
	if err != nil {
		return nil
	}
	links, ok := parseIndex(b)
	if !ok {
		return nil
	}
	return links
}

// parseIndex reads the entries of an index of version 2, 3 or 4, with object
// names of SHA-1 or SHA-256; which it is shows in that the entries add up.
func parseIndex(b []byte) (map[string]bool, bool) {
	for _, hash := range []int{20, 32} {
		if links, ok := parseEntries(b, hash); ok {
			return links, true
		}
	}
	return nil, false
}

func parseEntries(b []byte, hash int) (map[string]bool, bool) {
	if len(b) < 12 || string(b[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return nil, false
	}
	links := map[string]bool{}
	var name []byte
	at := 12
	for range count {
		e, ok := parseEntry(b[min(at, len(b)):], hash, int(version), name)
		if !ok {
			return nil, false
		}
		if e.mode&0o170000 == gitlinkMode {
			links[string(e.name)] = true
		}
		name, at = e.name, at+e.size
	}
	if !endsWell(b, at, hash) {
		return nil, false
	}
	return links, true
}

// endsWell reports whether what follows the entries is extensions, each with
// its length, and then the checksum and nothing else.
func endsWell(b []byte, at, hash int) bool {
	for len(b)-at > hash {
		if len(b)-at < hash+8 {
			return false
		}
		at += 8 + int(binary.BigEndian.Uint32(b[at+4:]))
	}
	return len(b)-at == hash
}

type indexEntry struct {
	mode uint32
	name []byte
	size int
}

// parseEntry reads one: ten 32-bit numbers, of which the seventh is the mode,
// the object's name, flags, more flags in version 3, and the file's name.
func parseEntry(b []byte, hash, version int, before []byte) (e indexEntry, ok bool) {
	head := 40 + hash + 2
	if len(b) < head+2 {
		return e, false
	}
	e.mode = binary.BigEndian.Uint32(b[24:])
	if flags := binary.BigEndian.Uint16(b[40+hash:]); version >= 3 && flags&0x4000 != 0 {
		head += 2
	}
	keep, width := 0, 0
	if version == 4 {
		drop, n := prefixLength(b[head:])
		if n == 0 || drop > len(before) {
			return e, false
		}
		keep, width = len(before)-drop, n
	}
	end := bytes.IndexByte(b[min(head+width, len(b)):], 0)
	if end < 0 {
		return e, false
	}
	rest := b[head+width : head+width+end]
	e.name, e.size = rest, head+width+end+1
	if version < 4 {
		e.size = (head + end + 8) / 8 * 8 // padded with one to eight NULs
		return e, true
	}
	e.name = append(append([]byte{}, before[:keep]...), rest...)
	return e, true
}

// prefixLength is git's variable-width number: how much of the last name's
// end to drop, and the width of the number itself, zero for none.
func prefixLength(b []byte) (value, width int) {
	for i := 0; i < len(b) && i < 5; i++ {
		value = value<<7 | int(b[i]&0x7f)
		if b[i]&0x80 == 0 {
			return value, i + 1
		}
		value++
	}
	return 0, 0
}
