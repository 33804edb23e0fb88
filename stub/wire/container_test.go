package wire_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/stub/wire"
)

func TestContainerPacketsRoundTrip(t *testing.T) {
	t.Parallel()
	hail := &wire.Caller{Version: wire.Version, Nonce: [wire.NonceSize]byte{1, 31: 255}, Again: true}
	gotHail, err := wire.DecodeHail(wire.EncodeHail(hail))
	if diff := cmp.Diff(hail, gotHail); err != nil || diff != "" {
		t.Errorf("Hail: %v\n%s", err, diff)
	}
	orders := &wire.Errand{Listen: []string{"127.0.0.1:3128", "127.0.0.1:5432"}, Tenant: true}
	gotOrders, err := wire.DecodeOrders(wire.EncodeOrders(orders))
	if diff := cmp.Diff(orders, gotOrders); err != nil || diff != "" {
		t.Errorf("Orders: %v\n%s", err, diff)
	}
	for _, end := range []wire.End{{}, {Code: 255}, {Code: 137, Signal: 9}} {
		if got, err := wire.DecodeEnded(wire.EncodeEnded(end)); err != nil || got != end {
			t.Errorf("Ended %+v: got %+v, %v", end, got, err)
		}
	}
	if got, err := wire.DecodeKill(wire.EncodeKill(15)); err != nil || got != 15 {
		t.Errorf("Kill: got %d, %v", got, err)
	}
}

func TestContainerPacketsRefuse(t *testing.T) {
	t.Parallel()
	hail := wire.EncodeHail(&wire.Caller{Version: wire.Version})
	for name, decode := range map[string]func() error{
		"another version": func() error {
			_, err := wire.DecodeHail(wire.EncodeHail(&wire.Caller{Version: wire.Version + 1}))
			return err
		},
		"a short nonce": func() error { _, err := wire.DecodeHail(hail[:len(hail)-2]); return err },
		"a byte more":   func() error { _, err := wire.DecodeHail(append(bytes.Clone(hail), 0)); return err },
		"too many listeners": func() error {
			_, err := wire.DecodeOrders(wire.EncodeOrders(&wire.Errand{Listen: make([]string, wire.MaxListeners+1)}))
			return err
		},
		"a signal that isn't in the code": func() error { _, err := wire.DecodeEnded(wire.EncodeEnded(wire.End{Code: 3, Signal: 9})); return err },
		"signal 0":                        func() error { _, err := wire.DecodeKill(wire.EncodeKill(0)); return err },
		"signal 65":                       func() error { _, err := wire.DecodeKill(wire.EncodeKill(65)); return err },
	} {
		if decode() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzDecodeContainerPacket(f *testing.F) {
	f.Add(wire.EncodeHail(&wire.Caller{Version: wire.Version}))
	f.Add(wire.EncodeOrders(&wire.Errand{Listen: []string{"127.0.0.1:1"}, Tenant: true}))
	f.Add(wire.EncodeEnded(wire.End{Code: 137, Signal: 9}))
	f.Add(wire.EncodeKill(15))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := wire.DecodeHail(b); err == nil && !bytes.Equal(wire.EncodeHail(c), b) {
			t.Errorf("Hail %q decodes to %+v", b, c)
		}
		if e, err := wire.DecodeOrders(b); err == nil && !bytes.Equal(wire.EncodeOrders(e), b) {
			t.Errorf("Orders %q decodes to %+v", b, e)
		}
		if e, err := wire.DecodeEnded(b); err == nil && !bytes.Equal(wire.EncodeEnded(e), b) {
			t.Errorf("Ended %q decodes to %+v", b, e)
		}
		if sig, err := wire.DecodeKill(b); err == nil && !bytes.Equal(wire.EncodeKill(sig), b) {
			t.Errorf("Kill %q decodes to %d", b, sig)
		}
	})
}
