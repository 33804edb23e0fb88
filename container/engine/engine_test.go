package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/policy"
)

// fake is an engine of a few canned answers, by method and path.
type fake struct {
	answers map[string]string
	status  map[string]int
	header  map[string]string // of the greeting
	// stumbles is how often it answers 500 before it answers at all.
	stumbles map[string]int
	// gone is after how many answers it knows nothing any more.
	gone map[string]int
}

// serve makes it answer on a unix socket.
func (f fake) serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pfe")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	stumbles, gone := maps.Clone(f.stumbles), maps.Clone(f.gone) // one question after another
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + r.URL.Path
		if stumbles[key] > 0 {
			stumbles[key]--
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if left, counted := gone[key]; counted {
			if gone[key]--; left <= 0 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
		}
		for name, value := range f.header {
			w.Header().Set(name, value)
		}
		if code := f.status[key]; code != 0 {
			w.WriteHeader(code)
		} else if _, ok := f.answers[key]; !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, f.answers[key])
	})}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
		<-done
	})
	return "unix://" + l.Addr().String()
}

var id = strings.Repeat("ab", 32)

func docker() fake {
	return fake{answers: map[string]string{
		"GET /_ping": "OK",
		"GET /v1.47/info": `{"ID":"D","OSType":"linux","CgroupVersion":"2","MemoryLimit":true,"SwapLimit":true,"CpuCfsQuota":true,"PidsLimit":true,
			"SecurityOptions":["name=seccomp,profile=builtin","name=userns"],"LiveRestoreEnabled":true,"KernelVersion":"6.1","Architecture":"x86_64"}`,
		"GET /v1.47/containers/" + id + "/json": `{"Id":"` + id + `","Image":"sha256:` + id + `","State":{"Status":"created","StartedAt":"0001-01-01T00:00:00Z"}}`,
		"GET /v1.47/containers/json":            `[{"Id":"` + id + `"}]`,
	}, status: map[string]int{}, header: map[string]string{"Api-Version": "1.51", "Server": "Docker/28.0 (linux)"}}
}

func (f fake) open(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Connect(t.Context(), engine.Docker, f.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func (f fake) ref() container.Ref {
	return container.Ref{Provider: engine.Docker, Daemon: "docker:D", ID: id}
}

// TestInfo: what an engine says is read as it is meant.
func TestInfo(t *testing.T) {
	t.Parallel()
	got, err := docker().open(t).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Identity != "docker:D" || got.API != "1.47" || got.Version != "28.0" || got.Arch != "amd64" || !got.Remapped || got.Rootless || got.Cgroup != 2 || !got.LiveRestore ||
		got.CanLimit != (container.CanLimit{CPU: true, Memory: true, Swap: true, PIDs: true}) || !slices.Equal(got.Security, []string{"seccomp", "userns"}) {
		t.Errorf("%+v", got)
	}
}

// TestVersions: engines that speak no version of ours are refused.
func TestVersions(t *testing.T) {
	t.Parallel()
	for header, code := range map[string]string{
		"Api-Version=1.40": "engine_version", "Api-Version=1.9": "engine_version", "Api-Version=": "engine_version", "Api-Version=new": "engine_version",
		"Api-Version=1.41": "", "Libpod-Api-Version=4.3.1": "engine_unexpected",
	} {
		f := docker()
		name, value, _ := strings.Cut(header, "=")
		f.header[name] = value
		e, err := engine.Connect(t.Context(), engine.Docker, f.serve(t))
		r, refused := errors.AsType[*policy.Refusal](err)
		if refused != (code != "") || refused && r.Code != code {
			t.Errorf("%s: got %v, wanted %q", header, err, code)
		}
		if err == nil {
			e.Close()
		}
	}
	f := docker()
	f.status["GET /_ping"] = http.StatusInternalServerError
	_, err := engine.Connect(t.Context(), engine.Docker, f.serve(t))
	if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "engine_unreachable" {
		t.Errorf("one that is ill: %v", err)
	}
}

// TestNeverNone: an engine that fails is an error, whatever is asked.
func TestNeverNone(t *testing.T) {
	t.Parallel()
	f := docker()
	e := f.open(t)
	for _, path := range []string{"GET /v1.47/containers/json", "GET /v1.47/containers/" + id + "/json"} {
		for what, broken := range map[string]func(){
			"500":      func() { f.status[path] = 500 },
			"no JSON":  func() { f.answers[path] = "{" },
			"no more":  func() { f.answers[path] = "" },
			"redirect": func() { f.status[path] = 301 },
		} {
			whole := f.answers[path]
			broken()
			if _, err := e.List(t.Context(), map[string]string{"a": ""}); err == nil {
				t.Errorf("%s of %s: a listing says nothing of it", what, path)
			}
			if _, err := e.Inspect(t.Context(), f.ref()); err == nil && strings.Contains(path, id) {
				t.Errorf("%s of %s: an inspect says nothing of it", what, path)
			}
			f.answers[path] = whole
			delete(f.status, path)
		}
	}
	if _, err := e.List(t.Context(), nil); err == nil {
		t.Error("everybody's containers are listed")
	}
}

// TestOthersContainers: an answer about another container, and a reference to
// another engine's, are errors.
func TestOthersContainers(t *testing.T) {
	t.Parallel()
	f := docker()
	f.answers["GET /v1.47/containers/"+id+"/json"] = `{"Id":"` + strings.Repeat("cd", 32) + `"}`
	e := f.open(t)
	if _, err := e.Inspect(t.Context(), f.ref()); err == nil {
		t.Error("another container's answer is taken")
	}
	other := f.ref()
	other.Daemon = "docker:E"
	if _, err := e.Inspect(t.Context(), other); !errors.Is(err, container.ErrOtherEngine) {
		t.Errorf("another engine's: %v", err)
	}
	short := f.ref()
	short.ID = id[:12]
	if _, err := e.Inspect(t.Context(), short); err == nil {
		t.Error("half an ID is taken")
	}
}

// TestGone: a container that isn't there is gone; so it isn't to be started.
func TestGone(t *testing.T) {
	t.Parallel()
	f := docker()
	delete(f.answers, "GET /v1.47/containers/"+id+"/json")
	e := f.open(t)
	s, err := e.Inspect(t.Context(), f.ref())
	if err != nil || s.Status != container.Gone || s.Alive() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := e.Start(t.Context(), f.ref()); !errors.Is(err, container.ErrNoContainer) {
		t.Errorf("start: %v", err)
	}
}

// TestTakenOver: another engine that takes the socket's place knows nothing of
// the container, and that is no answer.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	f := docker()
	e := f.open(t)
	if _, err := e.Inspect(t.Context(), f.ref()); err != nil {
		t.Fatal(err)
	}
	delete(f.answers, "GET /v1.47/containers/"+id+"/json")
	f.answers["GET /v1.47/info"] = `{"ID":"E","OSType":"linux"}`
	if s, err := e.Inspect(t.Context(), f.ref()); !errors.Is(err, container.ErrOtherEngine) {
		t.Errorf("inspect: %v, %v", s.Status, err)
	}
	if err := e.Remove(t.Context(), f.ref()); !errors.Is(err, container.ErrOtherEngine) {
		t.Errorf("remove: %v", err)
	}
	f.status["GET /v1.47/info"] = http.StatusInternalServerError
	if s, err := e.Inspect(t.Context(), f.ref()); err == nil {
		t.Errorf("nobody knows, and it is %v", s.Status)
	}
}

// TestStartTwice: "not modified" is somebody else's start.
func TestStartTwice(t *testing.T) {
	t.Parallel()
	f := docker()
	f.status["POST /v1.47/containers/"+id+"/start"] = http.StatusNotModified
	if err := f.open(t).Start(t.Context(), f.ref()); err == nil {
		t.Error("somebody else's start passes for ours")
	}
}

// TestStatuses: anything but a clear no is alive.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for status, alive := range map[string]bool{
		"created": false, "configured": false, "initialized": false, "running": true, "paused": true, "restarting": true, "removing": true,
		"exited": false, "stopped": false, "dead": false, "stopping": true, "unknown": true, "": true,
	} {
		f := docker()
		f.answers["GET /v1.47/containers/"+id+"/json"] = `{"Id":"` + id + `","State":{"Status":"` + status + `"}}`
		s, err := f.open(t).Inspect(t.Context(), f.ref())
		if err != nil || s.Alive() != alive {
			t.Errorf("%q: alive %v, %v", status, s.Alive(), err)
		}
	}
}

// TestImageNames: what isn't one never becomes part of a request.
func TestImageNames(t *testing.T) {
	t.Parallel()
	e := docker().open(t)
	for _, name := range []string{"", "../containers/json?all=1", "a/../../b", "/a", "a b", "a?x", "a#b", "-rm", "a//b", "a\x00", strings.Repeat("a", 600)} {
		_, err := e.Resolve(t.Context(), name)
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != "image_name" {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// TestSpecs: an engine isn't asked for a container that leaves something open.
func TestSpecs(t *testing.T) {
	t.Parallel()
	e := docker().open(t)
	whole := container.Spec{
		Image: "sha256:" + id, Entrypoint: []string{"/x"}, Seccomp: []byte("{}"), Limits: container.Limits{PIDs: 1}, Labels: map[string]string{container.LabelHost: "h"},
	}
	for name, change := range map[string]func(*container.Spec){
		"an image by name": func(s *container.Spec) { s.Image = "a" }, "no entry point": func(s *container.Spec) { s.Entrypoint = nil },
		"no filter": func(s *container.Spec) { s.Seccomp = nil }, "no bound": func(s *container.Spec) { s.Limits = container.Limits{} },
		"nobody's": func(s *container.Spec) { s.Labels = nil },
	} {
		s := whole
		change(&s)
		if _, err := e.Create(t.Context(), s); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// TestEndpoints: where each engine is looked for.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	sum := sha256.Sum256([]byte("mine"))
	meta, err := json.Marshal(map[string]any{"Name": "mine", "Endpoints": map[string]any{"docker": map[string]string{"Host": "unix:///mine.sock"}}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, home, ".docker/contexts/meta/"+hex.EncodeToString(sum[:])+"/meta.json", string(meta))
	put(t, home, ".config/containers/podman-connections.json", `{"Connection":{"Connections":{"mine":{"URI":"unix:///pod.sock"}}}}`)
	current := t.TempDir()
	put(t, current, "config.json", `{"currentContext":"mine"}`)
	put(t, current, "contexts/meta/"+hex.EncodeToString(sum[:])+"/meta.json", string(meta))
	for name, c := range map[string]struct {
		choice engine.Choice
		engine string
		want   string
	}{
		"docker, root":             {engine.Choice{}, "docker", "unix:///run/docker.sock unix:///var/run/docker.sock"},
		"docker, a user":           {engine.Choice{UID: 7}, "docker", "unix:///run/docker.sock unix:///var/run/docker.sock unix:///run/user/7/docker.sock unix://" + home + "/.docker/run/docker.sock"},
		"DOCKER_HOST":              {engine.Choice{Env: env(map[string]string{"DOCKER_HOST": "unix:///x"})}, "docker", "unix:///x"},
		"a context":                {engine.Choice{Context: "mine", Env: env(map[string]string{"DOCKER_HOST": "unix:///x"})}, "docker", "unix:///mine.sock"},
		"DOCKER_CONTEXT":           {engine.Choice{Env: env(map[string]string{"DOCKER_CONTEXT": "mine"})}, "docker", "unix:///mine.sock"},
		"the current context":      {engine.Choice{Env: env(map[string]string{"DOCKER_CONFIG": current})}, "docker", "unix:///mine.sock"},
		"the context default":      {engine.Choice{Context: "default", Env: env(map[string]string{"DOCKER_HOST": "tcp://x"})}, "docker", "unix:///run/docker.sock unix:///var/run/docker.sock"},
		"a context of nobody's":    {engine.Choice{Context: "other"}, "docker", "context_unknown"},
		"podman, root":             {engine.Choice{}, "podman", "unix:///run/podman/podman.sock"},
		"podman, a user":           {engine.Choice{UID: 7}, "podman", "unix:///run/user/7/podman/podman.sock"},
		"podman, a runtime dir":    {engine.Choice{UID: 7, Env: env(map[string]string{"XDG_RUNTIME_DIR": "/r"})}, "podman", "unix:///r/podman/podman.sock"},
		"CONTAINER_HOST":           {engine.Choice{Env: env(map[string]string{"CONTAINER_HOST": "unix:///y"})}, "podman", "unix:///y"},
		"a connection":             {engine.Choice{Context: "mine"}, "podman", "unix:///pod.sock"},
		"a connection of nobody's": {engine.Choice{Context: "other"}, "podman", "context_unknown"},
	} {
		c.choice.Home = home
		if c.choice.Env == nil {
			c.choice.Env = env(nil)
		}
		got, err := c.choice.Endpoints(c.engine)
		said := strings.Join(got, " ")
		if r, ok := errors.AsType[*policy.Refusal](err); ok {
			said = r.Code
		}
		if said != c.want {
			t.Errorf("%s: got %q (%v), wanted %q", name, said, err, c.want)
		}
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestOpen: one that is named is never replaced, and none is an error that
// names the way out.
func TestOpen(t *testing.T) {
	t.Parallel()
	here := docker().serve(t)
	for name, c := range map[string]struct {
		vars    map[string]string
		runtime string
		def     string
		code    string
	}{
		"the first that answers":  {vars: map[string]string{"DOCKER_HOST": here}},
		"none":                    {vars: map[string]string{"DOCKER_HOST": "unix:///no", "CONTAINER_HOST": "unix:///no"}, code: "no_engine"},
		"the policy's":            {vars: map[string]string{"DOCKER_HOST": here, "CONTAINER_HOST": "unix:///no"}, runtime: "podman", code: "engine_unreachable"},
		"the caller's":            {vars: map[string]string{"DOCKER_HOST": here, "CONTAINER_HOST": "unix:///no", "PINFOLD_CONTAINER_RUNTIME": "podman"}, code: "engine_unreachable"},
		"the policy's over his":   {vars: map[string]string{"DOCKER_HOST": here, "PINFOLD_CONTAINER_RUNTIME": "podman"}, runtime: "docker"},
		"the operator's":          {vars: map[string]string{"DOCKER_HOST": here, "CONTAINER_HOST": "unix:///no"}, def: "podman", code: "engine_unreachable"},
		"runc":                    {runtime: "runc", code: "runtime_unavailable"},
		"one that doesn't exist":  {vars: map[string]string{"PINFOLD_CONTAINER_RUNTIME": "rkt"}, code: "runtime_unknown"},
		"one that is far away":    {vars: map[string]string{"DOCKER_HOST": "tcp://10.0.0.1:2375"}, runtime: "docker", code: "engine_remote"},
		"docker that is podman's": {vars: map[string]string{"CONTAINER_HOST": here}, runtime: "podman", code: "engine_unexpected"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		e, err := engine.Open(ctx, engine.Choice{Runtime: c.runtime, Default: c.def, Env: env(c.vars), Home: "/nobody"})
		cancel()
		r, refused := errors.AsType[*policy.Refusal](err)
		if refused != (c.code != "") || refused && (r.Code != c.code || r.Fix == "") {
			t.Errorf("%s: got %v, wanted %q", name, err, c.code)
		}
		if c.code == "no_engine" && !strings.Contains(r.Fix, "PINFOLD_DISABLE_CONTAINER=1") {
			t.Errorf("no way out in %q", r.Fix)
		}
		if err == nil {
			e.Close()
		}
	}
}

// TestNamedBy: what led to an engine.
func TestNamedBy(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.MkdirAll(home+"/.docker", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/.docker/config.json", []byte(`{"currentContext": "current"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		engine  string
		vars    map[string]string
		context string
		home    string
		want    string
	}{
		"nothing":                    {engine: "docker", home: "/nobody"},
		"the current context":        {engine: "docker", want: "context current"},
		"a variable over it":         {engine: "docker", vars: map[string]string{"DOCKER_HOST": "unix:///x", "DOCKER_CONTEXT": "other"}, want: "$DOCKER_HOST"},
		"a context's variable":       {engine: "docker", vars: map[string]string{"DOCKER_CONTEXT": "other"}, want: "context other"},
		"the policy's over them all": {engine: "docker", vars: map[string]string{"DOCKER_HOST": "unix:///x"}, context: "mine", want: "context mine"},
		"the policy's default":       {engine: "docker", vars: map[string]string{"DOCKER_HOST": "unix:///x"}, context: "default"},
		"podman":                     {engine: "podman"},
		"podman's variable":          {engine: "podman", vars: map[string]string{"CONTAINER_HOST": "unix:///x"}, want: "$CONTAINER_HOST"},
		"podman's connection":        {engine: "podman", context: "mine", want: "connection mine"},
	} {
		if c.home == "" {
			c.home = home
		}
		if got := (engine.Choice{Context: c.context, Env: env(c.vars), Home: c.home}).NamedBy(c.engine); got != c.want {
			t.Errorf("%s: got %q, wanted %q", name, got, c.want)
		}
	}
}

// FuzzInspect: whatever an engine answers is an error or a state, and none
// runs and has ended.
func FuzzInspect(f *testing.F) {
	f.Add(`{"Id":"` + id + `","State":{"Status":"running","StartedAt":"2026-01-01T00:00:00Z"}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, answer string) {
		if s, err := engine.ReadState(container.Ref{ID: id}, []byte(answer)); err == nil && s.Alive() && s.Ended() {
			t.Errorf("%q: %+v", answer, s)
		}
	})
}

// TestAskedAgain: an engine that stumbles over a container which somebody is
// just removing is asked again; one that goes on stumbling is an error.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	path := "GET /v1.47/containers/" + id + "/json"
	f := docker()
	e := f.open(t)
	f.status[path] = http.StatusInternalServerError
	if s, err := e.Inspect(t.Context(), f.ref()); err == nil {
		t.Errorf("nobody knows, and it is %v", s.Status)
	}
	f.stumbles = map[string]int{path: 2}
	delete(f.status, path)
	delete(f.answers, path)
	if s, err := f.open(t).Inspect(t.Context(), f.ref()); err != nil || s.Status != container.Gone {
		t.Errorf("%v, %v", s.Status, err)
	}
}

// TestRemovalGoesOn: a removal that somebody else began, who may have been
// killed since, is waited for.
func TestRemovalGoesOn(t *testing.T) {
	t.Parallel()
	path := "/v1.47/containers/" + id
	f := docker()
	f.status["DELETE "+path] = http.StatusConflict
	f.answers["GET "+path+"/json"] = `{"Id":"` + id + `","State":{"Status":"removing","StartedAt":"2026-01-02T03:04:05Z"}}`
	f.gone = map[string]int{"GET " + path + "/json": 4}
	e := f.open(t)
	if err := e.Stop(t.Context(), f.ref(), 0); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := f.open(t).Remove(t.Context(), f.ref()); err != nil {
		t.Errorf("remove: %v", err)
	}
	f.gone = nil
	f.answers["GET "+path+"/json"] = `{"Id":"` + id + `","State":{"Status":"running"}}`
	if err := f.open(t).Remove(t.Context(), f.ref()); err == nil {
		t.Error("one that runs passes for removed")
	}
}
