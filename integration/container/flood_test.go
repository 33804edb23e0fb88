//go:build linux

package container_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestStopInAFlood: a command that sends SIGTERM to pid 1 without end doesn't
// hide that the engine was told to stop the container; and it can't send what
// the engine sends.
func TestStopInAFlood(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.start(nil, `trap '' TERM; kill -62 1 2>/dev/null && echo FORGED; kill -62 $$ 2>/dev/null && echo SENT
			for i in 1 2 3; do (while :; do kill -TERM 1; done) & done; while :; do sleep 0.1; done`)
		client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(l.endpoint, "unix://"))
		}}}
		defer client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine/v1.41/containers/"+r.stored().Container.ID+"/stop?t=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusNoContent {
			t.Errorf("%s, %v", answer.Status, err)
		}
		if code := r.wait(); code != 137 || r.stored().Exit.Reason != "interrupted" || r.stdout.String() != "up\n" {
			t.Errorf("exit %d, %+v, %q", code, r.stored().Exit, r.stdout.String())
		}
	})
}
