package recover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pinfold/recover"
)

// TestChurn: of processes that come and go faster than anybody can look at
// them there is an answer or none, and no hang; and none once it has to end.
func TestChurn(t *testing.T) {
	t.Parallel()
	r := start(t, `echo up; (while :; do (:) & (:) & (:) & wait; done) & cat >/dev/null; kill $!`)
	claim := recover.Claim{Record: r.record, Parent: r.parent.Process.Pid}
	for range 20 {
		began := time.Now()
		v, err := recover.Prove(t.Context(), claim)
		if err == nil && !v.Adoptable || err != nil && !errors.Is(err, recover.ErrUnclear) {
			t.Fatalf("%+v, %v", v, err)
		}
		if d := time.Since(began); d > 30*time.Second {
			t.Fatalf("it took %v", d)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := recover.Prove(over, claim); !errors.Is(err, recover.ErrUnclear) {
		t.Errorf("%+v, %v, wanted that nobody can tell", v, err)
	}
}
