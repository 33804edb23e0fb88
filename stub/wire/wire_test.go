package wire_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/stub/wire"
)

// full has every field set to something that the zero value isn't.
func full() *wire.Setup {
	return &wire.Setup{
		Version: wire.Version,
		Argv:    []string{"sh", "-c", "echo \"\n\xff\x00\"", ""},
		Env:     []string{"A=1", "B=\xfe\xff", "="},
		Dir:     "/work dir/\xc3",
		Stderr:  5,
		Listen:  []string{"127.0.0.1:3128", "[::1]:3128"},
		Sockets: []wire.Socket{{Domain: 16, Type: 3, Protocol: 4}, {Domain: 2, Type: 1}},
		TTY:     7,
		Rows:    24,
		Cols:    math.MaxUint16,
		Checks: []wire.Check{
			{Kind: wire.CheckBind, Path: "/w", Dev: math.MaxUint64, Ino: 1 << 63, ReadOnly: true},
			{Kind: wire.CheckEmptyFile, Path: "/f", Mode: 0o444, Size: -1},
		},
		Landlock:      wire.Landlock{Enabled: true, Writable: []string{"/w"}, WriteFiles: []string{"/dev/null"}, Scope: true},
		Umask:         0o27,
		Hold:          true,
		Limits:        []wire.Rlimit{{Resource: 7, Soft: 1, Hard: math.MaxUint64}},
		IgnoreSignals: 1,
		Calls:         []wire.Call{{Name: "unshare", Number: 272, Args: [6]uint64{math.MaxUint64, 0, 1, 2, 3, 4}, Errno: 1}, {Name: "socket"}},
		HostReadOnly:  []string{"/w"},
		ShareSignals:  true,
		Filter:        []byte{0, 1, 2},
	}
}

func TestSetupRoundTrip(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*wire.Setup{
		"full":  full(),
		"empty": {Version: wire.Version},
		"long":  {Version: wire.Version, Env: []string{strings.Repeat("x", 1<<20)}},
	} {
		got, err := wire.DecodeSetup(wire.EncodeSetup(want))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: round trip (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecodeSetupRefusesEveryTruncation(t *testing.T) {
	t.Parallel()
	whole := wire.EncodeSetup(full())
	for n := range whole {
		if _, err := wire.DecodeSetup(whole[:n]); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("the first %d of %d bytes: got %v, wanted ErrMalformed", n, len(whole), err)
		}
	}
}

func TestDecodeSetupRefuses(t *testing.T) {
	t.Parallel()
	other := full()
	other.Version++
	flag := wire.EncodeSetup(&wire.Setup{Version: wire.Version})
	flag[8+8+4+4+4+4+4+1+2+2+4] = 2 // Landlock.Enabled
	huge := wire.EncodeSetup(&wire.Setup{Version: wire.Version})
	copy(huge[8+8:], "\xff\xff\xff\xff") // the argv's length
	for name, tc := range map[string]struct {
		bytes []byte
		want  error
	}{
		"trailing byte":   {append(wire.EncodeSetup(full()), 0), wire.ErrMalformed},
		"other version":   {wire.EncodeSetup(other), wire.ErrVersion},
		"no magic":        {bytes.Repeat([]byte{0}, 200), wire.ErrMalformed},
		"past the bound":  {make([]byte, wire.MaxSetup+1), wire.ErrTooLong},
		"flag of 2":       {flag, wire.ErrMalformed},
		"impossible list": {huge, wire.ErrMalformed},
	} {
		if _, err := wire.DecodeSetup(tc.bytes); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, wanted %v", name, err, tc.want)
		}
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	want := wire.Greeting{Version: wire.Version, Listeners: 2, Sockets: 3, TTY: true, Filter: true}
	got, err := wire.DecodeHello(wire.EncodeHello(want))
	if err != nil || got != want {
		t.Errorf("round trip: got %+v, %v", got, err)
	}
	if n := want.Descriptors(); n != 7 {
		t.Errorf("Descriptors() = %d, wanted 7", n)
	}
	for name, bad := range map[string]wire.Greeting{
		"version":   {Version: wire.Version + 1},
		"listeners": {Version: wire.Version, Listeners: wire.MaxListeners + 1},
		"sockets":   {Version: wire.Version, Listeners: 1, Sockets: wire.MaxListeners},
	} {
		if _, err := wire.DecodeHello(wire.EncodeHello(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTried(t *testing.T) {
	t.Parallel()
	want := wire.Canaries{Denied: 1, ReadOnly: 2, Writable: 3, Calls: 4, Hosts: 5, Left: math.MaxUint32, Micros: 7}
	b := wire.EncodeTried(want)
	if got, err := wire.DecodeTried(b); err != nil || got != want {
		t.Errorf("round trip: got %+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, b[:len(b)-1], append(b[:len(b):len(b)], 0), wire.EncodeSignal(wire.Ready)} {
		if _, err := wire.DecodeTried(bad); err == nil {
			t.Errorf("%q: accepted", bad)
		}
	}
}

func TestFailureIsCutToFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<16)
	b := wire.EncodeFailure(&wire.Failure{Step: long, Path: long, Errno: 13, Text: long})
	if len(b) > wire.MaxPacket {
		t.Errorf("%d bytes, past MaxPacket", len(b))
	}
	f, err := wire.DecodeFailure(b)
	if err != nil {
		t.Fatal(err)
	}
	if f.Errno != 13 || f.Path == "" || !strings.HasPrefix(long, f.Path) {
		t.Errorf("got errno %d and %d bytes of path", f.Errno, len(f.Path))
	}
}

func TestPacketType(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   []byte
		want wire.Type
	}{
		{wire.EncodeSignal(wire.Go), wire.Go},
		{wire.EncodeSignal(wire.Ready), wire.Ready},
		{wire.EncodeHello(wire.Greeting{}), wire.Hello},
		{wire.EncodeFailure(&wire.Failure{}), wire.Failed},
		{nil, 0},
		{[]byte{0}, 0},
		{[]byte{9}, 0},
		{[]byte{byte(wire.Go), 0}, 0},
		{append([]byte{byte(wire.Failed)}, make([]byte, wire.MaxPacket)...), 0},
	} {
		got, err := wire.PacketType(tc.in)
		if got != tc.want || (err == nil) != (tc.want != 0) {
			t.Errorf("%.8q: got %d, %v, wanted %d", tc.in, got, err, tc.want)
		}
	}
}

// What decodes encodes to the same bytes: there is one spelling of a Setup.
func FuzzDecodeSetup(f *testing.F) {
	f.Add(wire.EncodeSetup(full()))
	f.Add(wire.EncodeSetup(&wire.Setup{Version: wire.Version}))
	f.Add([]byte("pinfold\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := wire.DecodeSetup(b)
		if err != nil {
			return
		}
		if !bytes.Equal(wire.EncodeSetup(s), b) {
			t.Errorf("decoded %q to %+v, which encodes differently", b, s)
		}
	})
}

func FuzzDecodePacket(f *testing.F) {
	f.Add(wire.EncodeHello(wire.Greeting{Version: wire.Version, Listeners: 1}))
	f.Add(wire.EncodeFailure(&wire.Failure{Step: wire.StepCheck, Path: "/w", Errno: 2, Text: "x"}))
	f.Add(wire.EncodeSignal(wire.Go))
	f.Add(wire.EncodeTried(wire.Canaries{Denied: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := wire.DecodeHello(b); err == nil && !bytes.Equal(wire.EncodeHello(g), b) {
			t.Errorf("Hello %q decodes to %+v", b, g)
		}
		if c, err := wire.DecodeTried(b); err == nil && !bytes.Equal(wire.EncodeTried(c), b) {
			t.Errorf("Tried %q decodes to %+v", b, c)
		}
		x, err := wire.DecodeFailure(b)
		if err != nil {
			return
		}
		again, err := wire.DecodeFailure(wire.EncodeFailure(x))
		if err != nil || again.Errno != x.Errno || !strings.HasPrefix(x.Text, again.Text) {
			t.Errorf("Failed %q decodes to %+v, then %+v, %v", b, x, again, err)
		}
	})
}
