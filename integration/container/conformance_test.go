//go:build linux

package container_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"pinfold/container"
	"pinfold/container/conformance"
)

// TestConformance checks what every provider promises, and that the check
// fails providers that don't keep it.
func TestConformance(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		e := l.connect(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		t.Cleanup(cancel)
		subject := conformance.Subject{Unique: owner(t), Run: func(script string) container.Spec { return l.shell(t, e, script) }}
		if err := conformance.Check(ctx, e, subject); err != nil {
			t.Fatal(err)
		}
		for i, c := range conformance.Broken(e) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				s := subject
				s.Unique += strconv.Itoa(i)
				err := conformance.Try(ctx, c.Provider, s, c.Promise)
				if err == nil {
					t.Error("the suite passes it")
				}
				t.Log(err)
				l.sweep(ctx, t, e, "conformance-"+s.Unique)
			})
		}
	})
}
