package wire

// The container form: the stub is pid 1 of a container and stays, and what
// bubblewrap does by inherited descriptors goes over a SOCK_SEQPACKET socket
// that the supervisor listens on, in a directory mounted read-only. Whoever
// else may connect to it, the supervisor answers pid 1 alone.
//
//	stub -> supervisor  Hail    (the nonce of this launch)
//	supervisor -> stub  Orders  (SCM_RIGHTS: see [Errand])
//	stub -> supervisor  Offer   (SCM_RIGHTS: the listeners)
//	stub -> supervisor  Child   (SCM_RIGHTS: a pidfd of the process that becomes the command)
//
// That process is the stub once more, in its other form: Hello, Go, Tried,
// Ready, Failed, Started, Stopped and Wants go through pid 1 as they are.
//
//	stub -> supervisor  Running (the command was executed)
//	supervisor -> stub  Kill    (a signal for the command)
//	stub -> supervisor  Termed  (SIGTERM came from outside the container)
//	stub -> supervisor  Ended   (the command has ended)
//	supervisor -> stub  Bye     (pid 1 may end too)
//
// When the supervisor has gone the stub looks out for another, says Hail
// again, and once that answers Again it makes Offer and Child anew.
const (
	// ContainerArg as its only argument makes the stub pid 1 of a container.
	ContainerArg = "container"
	// ContainerDir is where the supervisor's directory stands inside, with the
	// socket and the nonce in it.
	ContainerDir    = "/.pinfold/run"
	ContainerSocket = ContainerDir + "/s"
	ContainerNonce  = ContainerDir + "/nonce"
	// NonceSize is the length of a nonce.
	NonceSize = 32
)

// The packets of a container.
const (
	Hail Type = iota + 32
	Orders
	Offer
	Child
	Again
	Running
	Kill
	Termed
	Ended
	Bye
)

// OrderFDs is how many descriptors come with Orders: the sealed Setup of the
// process that becomes the command, the file that notes go to, and the
// command's standard streams. One more comes where [Errand.Tenant] says so.
const OrderFDs = 5

// StopSignal is what an engine is told to stop a container with, in place of
// SIGTERM, as which it reaches the command. One of the real-time signals, since
// of the others the kernel keeps one alone until it is delivered (signal(7),
// "Queueing"): a flood of SIGTERM from inside would swallow the engine's. And
// one that the filter lets nobody inside send.
const StopSignal = 62

// The lines that the stub writes to the file for notes, for whoever comes
// after the supervisor. "exit 3" and "signal 9" have a number.
const (
	NoteTerm   = "term"
	NoteExit   = "exit"
	NoteSignal = "signal"
)

// Caller is the body of a Hail packet.
type Caller struct {
	Version int
	Nonce   [NonceSize]byte
	// Again: the command runs, and another supervisor had been there before.
	Again bool
}

// EncodeHail is a whole Hail packet.
func EncodeHail(c *Caller) []byte {
	w := &writer{}
	w.u8(byte(Hail))
	w.u32(uint32(c.Version))
	w.b = append(w.b, c.Nonce[:]...)
	w.flag(c.Again)
	return w.b
}

// DecodeHail reads a whole Hail packet.
func DecodeHail(b []byte) (*Caller, error) {
	r := &reader{b: b}
	if Type(r.u8()) != Hail {
		return nil, ErrMalformed
	}
	c := &Caller{Version: int(int32(r.u32()))}
	copy(c.Nonce[:], r.take(NonceSize))
	c.Again = r.flag()
	if err := r.done(); err != nil {
		return nil, err
	}
	if c.Version != Version {
		return nil, ErrVersion
	}
	return c, nil
}

// Errand is the body of an Orders packet: where to listen.
type Errand struct {
	Listen []string
	// Tenant: the last descriptor is a file to keep open as long as pid 1 lives.
	// The lock on it says that the container needs what was made for it.
	Tenant bool
}

// FDs is how many descriptors come along.
func (e *Errand) FDs() int {
	if e.Tenant {
		return OrderFDs + 1
	}
	return OrderFDs
}

// EncodeOrders is a whole Orders packet.
func EncodeOrders(e *Errand) []byte {
	w := &writer{}
	w.u8(byte(Orders))
	w.strs(e.Listen)
	w.flag(e.Tenant)
	return w.b
}

// DecodeOrders reads a whole Orders packet.
func DecodeOrders(b []byte) (*Errand, error) {
	if len(b) > MaxPacket {
		return nil, ErrTooLong
	}
	r := &reader{b: b}
	if Type(r.u8()) != Orders {
		return nil, ErrMalformed
	}
	e := &Errand{Listen: r.strs()}
	e.Tenant = r.flag()
	if err := r.done(); err != nil {
		return nil, err
	}
	if len(e.Listen) > MaxListeners {
		return nil, ErrMalformed
	}
	return e, nil
}

// End is the body of an Ended packet: what the kernel said of the command.
type End struct {
	Code   int
	Signal int // that ended it; Code is 128 more then
}

// EncodeEnded is a whole Ended packet.
func EncodeEnded(e End) []byte {
	w := &writer{}
	w.u8(byte(Ended))
	w.u8(byte(e.Code))
	w.u8(byte(e.Signal))
	return w.b
}

// DecodeEnded reads a whole Ended packet.
func DecodeEnded(b []byte) (End, error) {
	r := &reader{b: b}
	if Type(r.u8()) != Ended {
		return End{}, ErrMalformed
	}
	e := End{Code: int(r.u8()), Signal: int(r.u8())}
	if err := r.done(); err != nil {
		return End{}, err
	}
	if e.Signal != 0 && e.Code != 128+e.Signal {
		return End{}, ErrMalformed
	}
	return e, nil
}

// maxSignal is the last signal, signal(7).
const maxSignal = 64

// EncodeKill is a whole Kill packet.
func EncodeKill(sig int) []byte { return []byte{byte(Kill), byte(sig)} }

// DecodeKill reads a whole Kill packet.
func DecodeKill(b []byte) (int, error) {
	r := &reader{b: b}
	if Type(r.u8()) != Kill {
		return 0, ErrMalformed
	}
	sig := int(r.u8())
	if err := r.done(); err != nil {
		return 0, err
	}
	if sig < 1 || sig > maxSignal {
		return 0, ErrMalformed
	}
	return sig, nil
}
