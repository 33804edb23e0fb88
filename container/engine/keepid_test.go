package engine_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pinfold/container"
	"pinfold/container/engine"
)

// busyPodman says a few times that a user has no IDs, as one does that is asked
// twice at once, and counts how many ask it at once.
type busyPodman struct {
	root         string
	lacking      atomic.Int32 // how often yet
	asked        atomic.Int32
	inside, most atomic.Int32
}

func (b *busyPodman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Libpod-Api-Version", "4.3.1")
	switch r.URL.Path {
	case "/_ping":
	case "/v4.0.0/libpod/info":
		fmt.Fprintf(w, `{"store":{"graphRoot":%q},"host":{"security":{"rootless":true}}}`, b.root)
	default:
		b.create(w)
	}
}

func (b *busyPodman) create(w http.ResponseWriter) {
	b.asked.Add(1)
	if n := b.inside.Add(1); n > b.most.Load() {
		b.most.Store(n)
	}
	time.Sleep(20 * time.Millisecond) // what it takes
	b.inside.Add(-1)
	if b.lacking.Add(-1) >= 0 {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"message":"container create: keep-id requires additional UIDs or GIDs defined in /etc/subuid and /etc/subgid to function correctly: %!w(<nil>)"}`)
		return
	}
	fmt.Fprintf(w, `{"Id":%q}`, id)
}

func (b *busyPodman) serve(t *testing.T) string {
	t.Helper()
	b.root = t.TempDir()
	l, err := net.Listen("unix", filepath.Join(b.root, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: b}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return "unix://" + l.Addr().String()
}

func create(t *testing.T, endpoint, userns string) error {
	t.Helper()
	e, err := engine.Connect(t.Context(), engine.Podman, endpoint)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = e.Create(t.Context(), container.Spec{
		Image: "sha256:" + id, Entrypoint: []string{"/x"}, Seccomp: []byte("{}"), Limits: container.Limits{PIDs: 1},
		Labels: map[string]string{container.LabelHost: "h"}, Userns: userns,
	})
	return err
}

// TestLackOfIDs: an answer that may be wrong is asked for again, and believed
// in the end; no other answer is.
func TestLackOfIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		userns         string
		lacking, asked int32
		fails          bool
	}{
		"at once":        {"keep-id", 0, 1, false},
		"the third time": {"keep-id", 2, 3, false},
		"never":          {"keep-id", 1000, 5, true},
		"of no keep-id":  {"", 1, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &busyPodman{}
			b.lacking.Store(c.lacking)
			err := create(t, b.serve(t), c.userns)
			if (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "requires additional UIDs") || b.asked.Load() != c.asked {
				t.Errorf("asked %d times, got %v", b.asked.Load(), err)
			}
		})
	}
}

// TestOneAtATime: launches of several processes, which share nothing but the
// engine, take turns.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	b := &busyPodman{}
	endpoint := b.serve(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := create(t, endpoint, "keep-id"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if b.asked.Load() != 8 || b.most.Load() != 1 {
		t.Errorf("asked %d times, %d at once", b.asked.Load(), b.most.Load())
	}
}
