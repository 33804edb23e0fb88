package bwrap_test

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap"
	"pinfold/egress"
	"pinfold/policy"
)

//go:embed testdata/calls.py
var callsPy string

// outcomes reads lines of "what: came of it".
func outcomes(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		what, came, _ := strings.Cut(strings.TrimSpace(line), ":")
		out[what] = strings.TrimSpace(came)
	}
	return out
}

// waysThatWork end at the server, whichever way the program asks for it.
func waysThatWork() map[string]string {
	out := map[string]string{"non blocking": "EINPROGRESS 0 greetings", "bound to all": "True greetings", "twice": "EISCONN", "threads": "20"}
	for _, name := range []string{
		"plain", "with timeout", "bound", "mapped", "mapped bound", "happy eyeballs",
		"fast open connect", "in child", "undumpable", "exits in mid call",
	} {
		out[name] = "greetings"
	}
	return out
}

// Every way to connect is carried without a proxy, and whatever sends to an
// address by other calls is refused at once.
func TestTransparentCalls(t *testing.T) {
	t.Parallel()
	server := answering(t, "tcp", "127.0.0.1:0").Addr().String()
	allowed, err := policy.ParseHostPattern("api.example:80")
	must(t, err)
	network := policy.Network{Allow: []policy.HostPattern{allowed}, Mode: policy.ModeTransparent}
	carry := func() (bwrap.Egress, error) {
		d := egress.NewDecider(network)
		connect := func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			if to.String() != "203.0.113.9:80" {
				return nil, fmt.Errorf("dialled %s", to)
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", server)
		}
		return egress.NewTransparent(&egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d, Resolver: oneName{}, Connect: connect}}), nil
	}
	l := mediated(t, bwrap.Input{Argv: []string{"python3", "-c", callsPy, "api.example", "80", "81"}, Network: network})
	r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{Egress: carry}, "")
	must(t, err)
	want := waysThatWork()
	for name, errno := range map[string]string{
		"fast open": "EPERM", "send to": "EPIPE", "send message": "EPIPE", "datagram": "ENETUNREACH", "datagram connected": "ENETUNREACH",
		"datagram mapped": "ENETUNREACH", "echo request": "EACCES", "raw": "EPERM", "another port": "EACCES", "far": "EACCES",
	} {
		want[name] = errno
	}
	if diff := cmp.Diff(want, outcomes(r.finish(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Outside the same calls reach a server, and the others send.
func TestTransparentCallsControl(t *testing.T) {
	t.Parallel()
	server := portOf(answering(t, "tcp", "127.0.0.1:0"))
	text, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", callsPy, "localhost", fmt.Sprint(server), fmt.Sprint(server)).Output()
	must(t, err)
	got := outcomes(string(text))
	for name, want := range waysThatWork() {
		if got[name] != want {
			t.Errorf("%s: %q, wanted %q", name, got[name], want)
		}
	}
	for name, want := range map[string]string{"fast open": "1", "datagram": "8", "datagram mapped": "8", "another port": "greetings"} {
		if got[name] != want {
			t.Errorf("%s: %q, wanted %q, so its refusal shows nothing", name, got[name], want)
		}
	}
}
