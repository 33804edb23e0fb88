package wire

import "errors"

// The bounds of one message. A Setup holds an argv and an environment (the
// kernel takes 6 MiB of both together) and a few hundred paths; a packet
// holds one failure.
const (
	MaxSetup  = 32 << 20
	MaxPacket = 16 << 10
)

// ErrMalformed is returned for bytes that no encoder of this version wrote.
var ErrMalformed = errors.New("malformed message")

// A writer appends fields: integers are little endian and of fixed size,
// strings and lists carry their length as a uint32 first.
type writer struct {
	b []byte
}

func (w *writer) u8(v byte)    { w.b = append(w.b, v) }
func (w *writer) u16(v uint16) { w.uint(uint64(v), 2) }
func (w *writer) u32(v uint32) { w.uint(uint64(v), 4) }
func (w *writer) u64(v uint64) { w.uint(v, 8) }

// uint is written by hand because encoding/binary brings in reflect, which
// the stub would pay for at each start.
func (w *writer) uint(v uint64, size int) {
	for i := range size {
		w.b = append(w.b, byte(v>>(8*i)))
	}
}

func (w *writer) flag(v bool) {
	if v {
		w.u8(1)
	} else {
		w.u8(0)
	}
}

func (w *writer) str(s string) {
	w.u32(uint32(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) strs(list []string) {
	w.u32(uint32(len(list)))
	for _, s := range list {
		w.str(s)
	}
}

// A reader takes the fields off again. The first field that doesn't fit sets
// bad, and everything after it reads as zero.
type reader struct {
	b   []byte
	bad bool
}

// take returns the next n bytes, or nil once the message has proved bad.
func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() byte    { return byte(r.uint(1)) }
func (r *reader) u16() uint16 { return uint16(r.uint(2)) }
func (r *reader) u32() uint32 { return uint32(r.uint(4)) }
func (r *reader) u64() uint64 { return r.uint(8) }

func (r *reader) uint(size int) uint64 {
	var v uint64
	for i, c := range r.take(uint64(size)) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

// flag takes 0 or 1 and nothing else, so that each message has one encoding.
func (r *reader) flag() bool {
	v := r.u8()
	if v > 1 {
		r.bad = true
	}
	return v == 1
}

func (r *reader) str() string { return string(r.take(uint64(r.u32()))) }

// count reads a list's length. Each element takes at least size bytes, so a
// length the rest of the message can't hold is refused before anything is
// allocated for it.
func (r *reader) count(size int) int {
	n := r.u32()
	if r.bad || uint64(n)*uint64(size) > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) strs() []string {
	n := r.count(4)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, r.str())
	}
	return list
}

// done says whether the message was whole and nothing follows it.
func (r *reader) done() error {
	if r.bad || len(r.b) != 0 {
		return ErrMalformed
	}
	return nil
}
