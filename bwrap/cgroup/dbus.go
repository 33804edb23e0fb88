package cgroup

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// One method call of the D-Bus protocol and the signal that ends it; a whole
// client library would cost 0.36 MB of program. The wire format is that of
// the D-Bus specification, little-endian.

// marshal writes values in the wire format; its zero value is ready. Each
// value is aligned to its size from the beginning of the message.
type marshal struct{ b []byte }

func (m *marshal) align(n int) {
	for len(m.b)%n != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *marshal) u32(v uint32) {
	m.align(4)
	m.b = binary.LittleEndian.AppendUint32(m.b, v)
}

func (m *marshal) u64(v uint64) {
	m.align(8)
	m.b = binary.LittleEndian.AppendUint64(m.b, v)
}

func (m *marshal) text(s string) {
	m.u32(uint32(len(s)))
	m.b = append(append(m.b, s...), 0)
}

func (m *marshal) signature(s string) {
	m.b = append(append(append(m.b, byte(len(s))), s...), 0)
}

// array writes the length of what elements writes, which begins aligned and
// doesn't count that padding.
func (m *marshal) array(align int, elements func()) {
	m.u32(0)
	length := len(m.b) - 4
	m.align(align)
	begin := len(m.b)
	elements()
	binary.LittleEndian.PutUint32(m.b[length:], uint32(len(m.b)-begin))
}

// property is one (sv): a structure of a name and a variant.
func (m *marshal) property(name, signature string, value func()) {
	m.align(8)
	m.text(name)
	m.signature(signature)
	value()
}

// field is one (yv) of a message's header.
func (m *marshal) field(code byte, signature, value string) {
	m.align(8)
	m.b = append(m.b, code)
	m.signature(signature)
	if signature == "g" {
		m.signature(value)
		return
	}
	m.text(value)
}

// The message types and header fields in use.
const (
	methodCall, methodReturn, errorReply, signalMessage = 1, 2, 3, 4

	fieldPath, fieldInterface, fieldMember, fieldError, fieldReplySerial = 1, 2, 3, 4, 5

	fieldDestination, fieldSignature = 6, 8
)

// call is a whole method call to systemd's manager object.
func call(serial uint32, member, signature string, body []byte) []byte {
	m := &marshal{b: []byte{'l', methodCall, 0, 1}}
	m.u32(uint32(len(body)))
	m.u32(serial)
	m.array(8, func() {
		m.field(fieldPath, "o", "/org/freedesktop/systemd1")
		m.field(fieldInterface, "s", "org.freedesktop.systemd1.Manager")
		m.field(fieldMember, "s", member)
		m.field(fieldDestination, "s", "org.freedesktop.systemd1")
		m.field(fieldSignature, "g", signature)
	})
	m.align(8)
	return append(m.b, body...)
}

// message is what was received, as far as anybody looks.
type message struct {
	kind      byte
	reply     uint32
	member    string
	errorName string
	body      *unmarshal
}

// unmarshal reads values; after the end everything is zero and bad is set.
type unmarshal struct {
	b     []byte
	at    int
	order binary.ByteOrder
	bad   bool
}

func (u *unmarshal) take(n int) []byte {
	if u.bad || n < 0 || n > len(u.b)-u.at {
		u.bad = true
		return make([]byte, min(max(n, 0), 8))
	}
	u.at += n
	return u.b[u.at-n : u.at]
}

func (u *unmarshal) align(n int) { u.take((n - u.at%n) % n) }

func (u *unmarshal) u32() uint32 {
	u.align(4)
	return u.order.Uint32(u.take(4))
}

func (u *unmarshal) text() string {
	n := int(u.u32())
	if u.bad || n > len(u.b) {
		u.bad = true
		return ""
	}
	s := string(u.take(n))
	u.take(1)
	return s
}

func (u *unmarshal) signature() string {
	n := int(u.take(1)[0])
	s := string(u.take(n))
	u.take(1)
	return s
}

// maxMessage bounds what is read: a job's end takes a few hundred bytes.
const maxMessage = 1 << 20

// bus is one connection.
type bus struct {
	w      io.Writer
	r      *bufio.Reader
	serial uint32
}

func newBus(c io.ReadWriter) *bus { return &bus{w: c, r: bufio.NewReader(c)} }

// busError is systemd's answer that it won't.
type busError struct{ name, text string }

func (e *busError) Error() string { return e.name + ": " + e.text }

// authenticate is the EXTERNAL mechanism: the socket tells who we are.
func (b *bus) authenticate(uid int) error {
	id := hex.EncodeToString([]byte(strconv.Itoa(uid)))
	if _, err := io.WriteString(b.w, "\x00AUTH EXTERNAL "+id+"\r\n"); err != nil {
		return fmt.Errorf("cannot authenticate: %w", err)
	}
	line, err := b.r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "OK ") {
		return fmt.Errorf("cannot authenticate: %w", errors.Join(err, fmt.Errorf("the answer is %q", line)))
	}
	if _, err := io.WriteString(b.w, "BEGIN\r\n"); err != nil {
		return fmt.Errorf("cannot authenticate: %w", err)
	}
	return nil
}

// startUnit calls StartTransientUnit and waits for the job's end: only then
// are the processes where they belong.
func (b *bus) startUnit(unit string, body []byte) error {
	b.serial++
	if _, err := b.w.Write(call(b.serial, "StartTransientUnit", "ssa(sv)a(sa(sv))", body)); err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	for {
		m, err := b.receive()
		if err != nil {
			return fmt.Errorf("cannot read the answer: %w", err)
		}
		switch {
		case m.kind == errorReply && m.reply == b.serial:
			return &busError{m.errorName, m.body.text()}
		case m.kind == signalMessage && m.member == "JobRemoved":
			m.body.u32() // the job's number, then its path
			m.body.text()
			name, result := m.body.text(), m.body.text()
			if m.body.bad || name != unit {
				continue
			}
			if result != "done" {
				return fmt.Errorf("cannot start %s: its job ended as %q", unit, result)
			}
			return nil
		}
	}
}

// receive reads one message.
func (b *bus) receive() (*message, error) {
	var head [16]byte
	if _, err := io.ReadFull(b.r, head[:]); err != nil {
		return nil, err
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if head[0] == 'B' {
		order = binary.BigEndian
	}
	fields, body := order.Uint32(head[12:]), order.Uint32(head[4:])
	if fields > maxMessage || body > maxMessage {
		return nil, errors.New("the message is too long")
	}
	padded := (int(fields) + 7) / 8 * 8
	rest := make([]byte, padded+int(body))
	if _, err := io.ReadFull(b.r, rest); err != nil {
		return nil, err
	}
	m := &message{kind: head[1], body: &unmarshal{b: rest[padded:], order: order}}
	m.readFields(&unmarshal{b: rest[:fields], order: order})
	return m, nil
}

// readFields reads the header's fields. They begin at offset 16 of the
// message, so their alignment is right from the beginning of the array.
func (m *message) readFields(u *unmarshal) {
	for u.at < len(u.b) && !u.bad {
		u.align(8)
		code := u.take(1)[0]
		switch u.signature() {
		case "u":
			if v := u.u32(); code == fieldReplySerial {
				m.reply = v
			}
		case "g":
			u.signature()
		default: // "s" and "o"
			switch v := u.text(); code {
			case fieldMember:
				m.member = v
			case fieldError:
				m.errorName = v
			}
		}
	}
}
