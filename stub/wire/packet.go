package wire

// Greeting is the body of a Hello packet. The descriptors come with it as
// SCM_RIGHTS in this order: the listeners, the other sockets, the
// pseudo-terminal's master, the second filter's listener.
type Greeting struct {
	Version   int
	Listeners int
	Sockets   int
	TTY       bool
	Filter    bool
}

// Descriptors is how many descriptors the Hello packet must carry.
func (g Greeting) Descriptors() int {
	n := g.Listeners + g.Sockets
	if g.TTY {
		n++
	}
	if g.Filter {
		n++
	}
	return n
}

// MaxListeners bounds Setup.Listen and Setup.Sockets together: all descriptors travel in one control
// message, and the kernel takes 253 (SCM_MAX_FD, unix(7)).
const MaxListeners = 128

// EncodeHello is a whole Hello packet.
func EncodeHello(g Greeting) []byte {
	w := &writer{}
	w.u8(byte(Hello))
	w.u32(uint32(g.Version))
	w.u32(uint32(g.Listeners))
	w.u32(uint32(g.Sockets))
	w.flag(g.TTY)
	w.flag(g.Filter)
	return w.b
}

// DecodeHello reads a whole Hello packet.
func DecodeHello(b []byte) (Greeting, error) {
	r := &reader{b: b}
	if Type(r.u8()) != Hello {
		return Greeting{}, ErrMalformed
	}
	g := Greeting{Version: int(int32(r.u32())), Listeners: int(r.u32()), Sockets: int(r.u32()), TTY: r.flag(), Filter: r.flag()}
	if err := r.done(); err != nil {
		return Greeting{}, err
	}
	if g.Version != Version {
		return Greeting{}, ErrVersion
	}
	if g.Listeners > MaxListeners || g.Sockets > MaxListeners-g.Listeners {
		return Greeting{}, ErrMalformed
	}
	return g, nil
}

// EncodeSignal is a whole packet of a type that has no body: Go, Ready,
// Started, Stopped or Wants, and in a container Offer, Child, Again, Running,
// Termed or Bye.
func EncodeSignal(t Type) []byte { return []byte{byte(t)} }

// PacketType is the type of a received packet. Packets without a body must be
// one byte long. An empty one (end of file) is [ErrMalformed].
func PacketType(b []byte) (Type, error) {
	if len(b) == 0 || len(b) > MaxPacket {
		return 0, ErrMalformed
	}
	switch t := Type(b[0]); t {
	case Hello, Failed, Tried, Hail, Orders, Kill, Ended:
		return t, nil
	case Go, Ready, Started, Stopped, Wants, Offer, Child, Again, Running, Termed, Bye:
		if len(b) == 1 {
			return t, nil
		}
	}
	return 0, ErrMalformed
}

// The bounds of a failure's strings: PATH_MAX, and a sentence or two.
const (
	maxStep = 64
	maxPath = 4096
	maxText = 4096
)

// EncodeFailure is a whole Failed packet. Strings past their bounds are cut,
// so that it always fits [MaxPacket].
func EncodeFailure(f *Failure) []byte {
	w := &writer{}
	w.u8(byte(Failed))
	w.str(cut(f.Step, maxStep))
	w.str(cut(f.Path, maxPath))
	w.u32(uint32(f.Errno))
	w.str(cut(f.Text, maxText))
	return w.b
}

// DecodeFailure reads a whole Failed packet.
func DecodeFailure(b []byte) (*Failure, error) {
	if len(b) > MaxPacket {
		return nil, ErrTooLong
	}
	r := &reader{b: b}
	if Type(r.u8()) != Failed {
		return nil, ErrMalformed
	}
	f := &Failure{Step: r.str(), Path: r.str(), Errno: int(int32(r.u32())), Text: r.str()}
	if err := r.done(); err != nil {
		return nil, err
	}
	return f, nil
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// EncodeTried is a whole Tried packet.
func EncodeTried(c Canaries) []byte {
	w := &writer{}
	w.u8(byte(Tried))
	for _, n := range [...]int{c.Denied, c.ReadOnly, c.Writable, c.Calls, c.Hosts, c.Left, c.Micros} {
		w.u32(uint32(n))
	}
	return w.b
}

// DecodeTried reads a whole Tried packet.
func DecodeTried(b []byte) (Canaries, error) {
	var c Canaries
	r := &reader{b: b}
	if Type(r.u8()) != Tried {
		return c, ErrMalformed
	}
	for _, to := range [...]*int{&c.Denied, &c.ReadOnly, &c.Writable, &c.Calls, &c.Hosts, &c.Left, &c.Micros} {
		*to = int(r.u32())
	}
	if err := r.done(); err != nil {
		return Canaries{}, err
	}
	return c, nil
}
