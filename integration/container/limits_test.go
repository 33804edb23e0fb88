//go:build linux

package container_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold/plan"
)

// hog takes 40 MB in one process.
const hog = `awk 'BEGIN { s = "0123456789abcdef"; while (length(s) < 40000000) s = s s; print length(s) }'`

// TestLimits: each is enforced, read back before the command runs, and told in
// the result. An engine that can't is refused.
func TestLimits(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		limits := func(more map[string]any) map[string]any { return map[string]any{"limits": more} }
		if info, err := p.e.Info(t.Context()); err != nil {
			t.Fatal(err)
		} else if !info.CanLimit.Memory {
			for field, value := range map[string]any{"memory": "64m", "cpus": 0.5, "pids": 64} {
				if got := p.wrap(limits(map[string]any{field: value}), "echo ran"); got.code != 125 || got.stdout != "" || !strings.Contains(got.stderr, "limits."+field) {
					t.Errorf("%s: %v", field, got)
				}
			}
			return
		}
		if r, a := p.resultOf(limits(map[string]any{"memory": "24m"}), hog); r.Reason != "oom" || r.Exit != 137 || hitsOf(r, "memory") < 1 {
			t.Errorf("memory: %+v\n%v", r, a)
		}
		if r, a := p.resultOf(limits(map[string]any{"memory": "200m"}), hog); r.Exit != 0 || r.Usage.PeakMemory < 20<<20 {
			t.Errorf("memory to spare: %+v\n%v", r.Usage, a)
		}
		r, a := p.resultOf(limits(map[string]any{"pids": 24}), `n=0; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do sleep 2 & done; wait`)
		if !strings.Contains(a.stderr, "fork") || r.Exit == 0 || hitsOf(r, "pids") < 1 {
			t.Errorf("pids: %+v\n%v", r, a)
		}
		if r, a := p.resultOf(limits(map[string]any{"cpus": 0.5}), `n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done`); r.Exit != 0 || hitsOf(r, "cpus") < 1 {
			t.Errorf("cpus: %+v\n%v", r, a)
		}
	})
}

// hitsOf is how often a limit was hit, or -1 for one that the result doesn't
// name.
func hitsOf(r plan.Result, name string) int64 {
	for _, l := range r.Limits {
		if l.Name == name {
			return l.Hits
		}
	}
	return -1
}

// TestLimitsOfFiles: those that need no cgroup hold on every engine, and the
// result names the one that was hit.
func TestLimitsOfFiles(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		limits := map[string]any{"limits": map[string]any{"tmp": "2m", "file_size": "1m", "files": 20}}
		r, a := p.resultOf(limits, `for i in 1 2 3 4; do dd if=/dev/zero of=/tmp/big$i bs=1k count=900; done 2>/dev/null; df -k /tmp | awk 'NR==2 {print $2}'`)
		if a.stdout != "2048\n" || hitsOf(r, "tmp") != 1 || hitsOf(r, "file_size") != 0 {
			t.Errorf("tmp: %+v\n%v", r.Limits, a)
		}
		r, a = p.resultOf(limits, `dd if=/dev/zero of=big bs=1M count=2 2>/dev/null; e=$?; stat -c %s big; exit $e`)
		if a.stdout != "1048576\n" || hitsOf(r, "file_size") != 1 || hitsOf(r, "tmp") != 0 {
			t.Errorf("file_size: %+v\n%v", r.Limits, a)
		}
		if got := p.wrap(limits, `n=3; while [ $n -lt 40 ]; do eval "exec $n</dev/null" || break; n=$((n+1)); done; echo $n`); strings.Contains(got.stdout, "40") {
			t.Errorf("files: %v", got)
		}
	})
}

// TestIdle: a command that says nothing is ended, and one that talks isn't.
func TestIdle(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		idle := map[string]any{"limits": map[string]any{"idle_timeout": "3s"}}
		idle["limits"].(map[string]any)["timeout"] = "10m" //nolint:forcetypeassert // see above
		if r, a := p.resultOf(idle, `echo a; sleep 30`); r.Exit != 124 || r.Reason != "timeout" || a.stdout != "a\n" || hitsOf(r, "idle_timeout") != 1 || hitsOf(r, "timeout") != 0 {
			t.Errorf("%+v\n%v", r, a)
		}
		if got := p.wrap(idle, `for i in 1 2 3 4 5; do echo $i; sleep 0.8; done`); got.code != 0 || got.stdout != "1\n2\n3\n4\n5\n" {
			t.Errorf("%v", got)
		}
		// What moves through the proxy or a port is no silence, nor is the time
		// right after it.
		port := serveWeb(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/short" {
				return
			}
			for range 25 {
				fmt.Fprint(w, "x")
				w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's own is one
				time.Sleep(200 * time.Millisecond)
			}
		})
		number, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		for name, network := range map[string]map[string]any{
			"the proxy": {"allow": []string{"127.0.0.1:" + port}}, "a port": {"host_ports": []int{number}},
		} {
			idle["network"] = network
			if got := p.wrap(idle, viaProxy+`[ "`+name+`" = "the proxy" ] || unset http_proxy; wget -q -O got http://127.0.0.1:`+port+`/ && sleep 2`); got.code != 0 {
				t.Errorf("%s: %v", name, got)
			}
			if got := p.wrap(idle, viaProxy+`[ "`+name+`" = "the proxy" ] || unset http_proxy; for i in $(seq 14); do wget -q -O got http://127.0.0.1:`+port+`/short; sleep 0.3; done`); got.code != 0 {
				t.Errorf("%s, a connection each: %v", name, got)
			}
		}
	})
}
