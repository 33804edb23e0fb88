package wire

import "errors"

// Refusals of [DecodeSetup] beside [ErrMalformed].
var (
	ErrVersion = errors.New("the stub and the supervisor are of different builds")
	ErrTooLong = errors.New("message too long")
)

// magic opens every encoded Setup, so that a wrong descriptor shows at once.
const magic = "pinfold\x00"

// EncodeSetup is the Setup as bytes. A Setup past [MaxSetup] encodes, but
// [DecodeSetup] refuses it.
func EncodeSetup(s *Setup) []byte {
	w := &writer{b: make([]byte, 0, 4096)}
	w.b = append(w.b, magic...)
	w.u64(uint64(s.Version))
	w.strs(s.Argv)
	w.strs(s.Env)
	w.str(s.Dir)
	w.u32(uint32(s.Stderr))
	w.strs(s.Listen)
	w.sockets(s.Sockets)
	w.u8(s.TTY)
	w.u16(s.Rows)
	w.u16(s.Cols)
	w.checks(s.Checks)
	w.landlock(&s.Landlock)
	w.u64(uint64(s.Umask))
	w.flag(s.Hold)
	w.limits(s.Limits)
	w.u64(s.IgnoreSignals)
	w.calls(s.Calls)
	w.strs(s.HostReadOnly)
	w.str(string(s.Filter))
	w.flag(s.ShareSignals)
	w.str(string(s.Inner))
	return w.b
}

// DecodeSetup reads what [EncodeSetup] wrote. Bytes of another version, bytes
// missing or left over, and lengths that can't be true are errors.
func DecodeSetup(b []byte) (*Setup, error) {
	if len(b) > MaxSetup {
		return nil, ErrTooLong
	}
	r := &reader{b: b}
	if string(r.take(uint64(len(magic)))) != magic {
		return nil, ErrMalformed
	}
	s := &Setup{Version: int(int64(r.u64()))}
	if !r.bad && s.Version != Version {
		return nil, ErrVersion
	}
	r.setup(s)
	if err := r.done(); err != nil {
		return nil, err
	}
	return s, nil
}

// setup reads the fields after the version, in the order of [EncodeSetup].
func (r *reader) setup(s *Setup) {
	s.Argv = r.strs()
	s.Env = r.strs()
	s.Dir = r.str()
	s.Stderr = int(int32(r.u32()))
	s.Listen = r.strs()
	s.Sockets = r.sockets()
	s.TTY = r.u8()
	s.Rows = r.u16()
	s.Cols = r.u16()
	s.Checks = r.checks()
	r.landlock(&s.Landlock)
	s.Umask = int(int64(r.u64()))
	s.Hold = r.flag()
	s.Limits = r.limits()
	s.IgnoreSignals = r.u64()
	s.Calls = r.calls()
	s.HostReadOnly = r.strs()
	if f := r.str(); f != "" {
		s.Filter = []byte(f)
	}
	s.ShareSignals = r.flag()
	if f := r.str(); f != "" {
		s.Inner = []byte(f)
	}
}

func (w *writer) sockets(list []Socket) {
	w.u32(uint32(len(list)))
	for _, s := range list {
		w.u32(uint32(s.Domain))
		w.u32(uint32(s.Type))
		w.u32(uint32(s.Protocol))
	}
}

func (r *reader) sockets() []Socket {
	n := r.count(4 + 4 + 4)
	if n == 0 {
		return nil
	}
	list := make([]Socket, n)
	for i := range list {
		list[i] = Socket{Domain: int(int32(r.u32())), Type: int(int32(r.u32())), Protocol: int(int32(r.u32()))}
	}
	return list
}

func (w *writer) checks(list []Check) {
	w.u32(uint32(len(list)))
	for i := range list {
		c := &list[i]
		w.u8(byte(c.Kind))
		w.str(c.Path)
		w.u64(c.Dev)
		w.u64(c.Ino)
		w.flag(c.ReadOnly)
		w.u32(c.Mode)
		w.u64(uint64(c.Size))
	}
}

func (r *reader) checks() []Check {
	n := r.count(1 + 4 + 8 + 8 + 1 + 4 + 8)
	if n == 0 {
		return nil
	}
	list := make([]Check, n)
	for i := range list {
		c := &list[i]
		c.Kind = CheckKind(r.u8())
		c.Path = r.str()
		c.Dev = r.u64()
		c.Ino = r.u64()
		c.ReadOnly = r.flag()
		c.Mode = r.u32()
		c.Size = int64(r.u64())
	}
	return list
}

func (w *writer) landlock(l *Landlock) {
	w.flag(l.Enabled)
	w.strs(l.Writable)
	w.strs(l.WriteFiles)
	w.flag(l.Scope)
}

func (r *reader) landlock(l *Landlock) {
	l.Enabled = r.flag()
	l.Writable = r.strs()
	l.WriteFiles = r.strs()
	l.Scope = r.flag()
}

func (w *writer) limits(list []Rlimit) {
	w.u32(uint32(len(list)))
	for _, l := range list {
		w.u32(uint32(l.Resource))
		w.u64(l.Soft)
		w.u64(l.Hard)
	}
}

func (r *reader) limits() []Rlimit {
	n := r.count(4 + 8 + 8)
	if n == 0 {
		return nil
	}
	list := make([]Rlimit, n)
	for i := range list {
		list[i] = Rlimit{Resource: int(int32(r.u32())), Soft: r.u64(), Hard: r.u64()}
	}
	return list
}

func (w *writer) calls(list []Call) {
	w.u32(uint32(len(list)))
	for i := range list {
		c := &list[i]
		w.str(c.Name)
		w.u32(c.Number)
		for _, a := range c.Args {
			w.u64(a)
		}
		w.u32(c.Errno)
	}
}

func (r *reader) calls() []Call {
	n := r.count(4 + 4 + 6*8 + 4)
	if n == 0 {
		return nil
	}
	list := make([]Call, n)
	for i := range list {
		c := &list[i]
		c.Name = r.str()
		c.Number = r.u32()
		for j := range c.Args {
			c.Args[j] = r.u64()
		}
		c.Errno = r.u32()
	}
	return list
}
