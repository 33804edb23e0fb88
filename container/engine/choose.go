package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"pinfold/policy"
)

// The engines of this package.
const (
	Docker = "docker"
	Podman = "podman"
)

// Choice says which engine is wanted, and where to look for it.
type Choice struct {
	Runtime string // container.runtime, "" for none named
	Context string // container.context
	Default string // the operator's settings
	// Env looks up the caller's environment.
	Env  func(string) string
	Home string // the caller's
	// Memory is a directory of ours, to remember in what an engine takes long
	// to say; "" remembers nothing.
	Memory string
	UID    int
}

// Open finds the engine: the policy's, $PINFOLD_CONTAINER_RUNTIME's, the
// operator's, docker, podman. One that is named is never replaced by another.
func Open(ctx context.Context, c Choice) (*Engine, error) {
	name := firstOf(c.Runtime, c.Env("PINFOLD_CONTAINER_RUNTIME"), c.Default)
	switch name {
	case Docker, Podman:
		return c.connect(ctx, name)
	case "runc", "crun":
		return nil, &policy.Refusal{
			Reason: policy.Unavailable, Code: "runtime_unavailable", Subject: name, Rule: "container.runtime",
			Why: fmt.Sprintf("cannot use the runtime %s: running one without an engine isn't built yet", name),
			Fix: `use "runtime": "docker" or "podman", or PINFOLD_DISABLE_CONTAINER=1 for the process tier`,
		}
	case "":
		return c.any(ctx)
	}
	return nil, &policy.Refusal{
		Reason: policy.Denied, Code: "runtime_unknown", Subject: name,
		Why: fmt.Sprintf("cannot use the runtime %q: there is no such one", name),
		Fix: "PINFOLD_CONTAINER_RUNTIME=docker or podman",
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// any takes the first engine that answers.
func (c Choice) any(ctx context.Context) (*Engine, error) {
	var errs []error
	for _, name := range []string{Docker, Podman} {
		e, err := c.connect(ctx, name)
		if err == nil {
			return e, nil
		}
		errs = append(errs, err)
	}
	return nil, &policy.Refusal{
		Reason: policy.Unavailable, Code: "no_engine", Subject: "container",
		Why: fmt.Sprintf("cannot run a container: no engine answers here (%s; %s)", whyOf(errs[0]), whyOf(errs[1])),
		Fix: engineFix(errs) + ", or set PINFOLD_DISABLE_CONTAINER=1 to run in the process tier", Err: errors.Join(errs...),
	}
}

// engineFix tells an engine that isn't there from one that keeps the caller
// out.
func engineFix(errs []error) string {
	if slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, fs.ErrPermission) }) {
		return "start podman as this user (podman system service --time=0), or have this user added to the group that docker's socket belongs to, which is as good as root"
	}
	return "install and start docker or podman"
}

// whyOf is what a refusal says, without its code.
func whyOf(err error) string {
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return r.Why
	}
	return err.Error()
}

// connect tries the places where an engine listens.
func (c Choice) connect(ctx context.Context, name string) (*Engine, error) {
	endpoints, err := c.Endpoints(name)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, endpoint := range endpoints {
		e, err := Connect(ctx, name, endpoint)
		if err == nil {
			e.memory = c.Memory
			err = e.introduce(ctx)
		}
		if err == nil {
			return e, nil
		}
		errs = append(errs, err)
	}
	return nil, errs[0]
}

// introduce has the engine say what it is while its caller still looks at
// other things; nobody has to wait for it later.
func (e *Engine) introduce(ctx context.Context) error {
	_, err := e.Info(ctx)
	if err == nil {
		return nil
	}
	e.client.close()
	return e.unavailable("engine_silent", err.Error(), startHint(e.name), err)
}

// Endpoints are where an engine may listen, in order. A context or a variable
// that names one leaves no other.
func (c Choice) Endpoints(name string) ([]string, error) {
	if name == Podman {
		return c.podmanEndpoints()
	}
	return c.dockerEndpoints()
}

// NamedBy is what names the engine's endpoint: a context, a connection or a
// variable; "" where nothing does, and the usual places are tried.
func (c Choice) NamedBy(name string) string {
	variable, kind := "DOCKER_HOST", "context "
	if name == Podman {
		variable, kind = "CONTAINER_HOST", "connection "
	}
	if c.Context != "" && c.Context != "default" {
		return kind + c.Context
	}
	if c.Context == "" || name == Podman {
		if c.Env(variable) != "" {
			return "$" + variable
		}
	}
	if name == Podman || c.Context != "" {
		return ""
	}
	current := c.Env("DOCKER_CONTEXT")
	if current == "" {
		current, _ = c.currentContext() //nolint:errcheck // whoever opens it is told
	}
	if current == "" || current == "default" {
		return ""
	}
	return kind + current
}

func (c Choice) dockerEndpoints() ([]string, error) {
	context := firstOf(c.Context, c.Env("DOCKER_CONTEXT"))
	if c.Context == "" {
		if h := c.Env("DOCKER_HOST"); h != "" {
			return []string{h}, nil
		}
	}
	if context == "" {
		var err error
		if context, err = c.currentContext(); err != nil {
			return nil, err
		}
	}
	if context != "" && context != "default" {
		endpoint, err := c.dockerContext(context)
		return []string{endpoint}, err
	}
	places := []string{"unix:///run/docker.sock", "unix:///var/run/docker.sock"}
	if c.UID != 0 {
		places = append(places, "unix://"+filepath.Join(c.runtimeDir(), "docker.sock"))
		if c.Home != "" {
			places = append(places, "unix://"+filepath.Join(c.Home, ".docker/run/docker.sock"))
		}
	}
	return places, nil
}

func (c Choice) runtimeDir() string {
	return firstOf(c.Env("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", c.UID))
}

func (c Choice) dockerConfig() string {
	return firstOf(c.Env("DOCKER_CONFIG"), filepath.Join(c.Home, ".docker"))
}

// currentContext is what "docker context use" chose.
func (c Choice) currentContext() (string, error) {
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	err := readJSON(filepath.Join(c.dockerConfig(), "config.json"), &config)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", nil
	}
	return config.CurrentContext, err
}

// dockerContext finds a context's endpoint: its file lies under the SHA-256
// of its name.
func (c Choice) dockerContext(name string) (string, error) {
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Name      string
		Endpoints map[string]struct{ Host string }
	}
	file := filepath.Join(c.dockerConfig(), "contexts/meta", hex.EncodeToString(sum[:]), "meta.json")
	if err := readJSON(file, &meta); err != nil {
		return "", contextRefusal(Docker, name, err)
	}
	if meta.Name != name || meta.Endpoints[Docker].Host == "" {
		return "", contextRefusal(Docker, name, fmt.Errorf("%q names no endpoint of it", file))
	}
	return meta.Endpoints[Docker].Host, nil
}

func contextRefusal(engine, name string, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "context_unknown", Subject: name, Rule: "container.context",
		Why: fmt.Sprintf("cannot use the %s context %q: %v", engine, name, err),
		Fix: engine + map[string]string{Docker: " context ls", Podman: " system connection list"}[engine] + " names those that there are", Err: err,
	}
}

func (c Choice) podmanEndpoints() ([]string, error) {
	if c.Context != "" && c.Context != "default" {
		endpoint, err := c.podmanConnection(c.Context)
		return []string{endpoint}, err
	}
	if h := c.Env("CONTAINER_HOST"); h != "" {
		return []string{h}, nil
	}
	if c.UID == 0 {
		return []string{"unix:///run/podman/podman.sock"}, nil
	}
	return []string{"unix://" + filepath.Join(c.runtimeDir(), "podman/podman.sock")}, nil
}

// podmanConnection finds a connection of podman 5, which keeps them in JSON.
// Older ones keep them in containers.conf; for those CONTAINER_HOST is the way.
func (c Choice) podmanConnection(name string) (string, error) {
	var file struct {
		Connection struct {
			Connections map[string]struct{ URI string }
		}
	}
	config := firstOf(c.Env("XDG_CONFIG_HOME"), filepath.Join(c.Home, ".config"))
	if err := readJSON(filepath.Join(config, "containers/podman-connections.json"), &file); err != nil {
		return "", contextRefusal(Podman, name, err)
	}
	if file.Connection.Connections[name].URI == "" {
		return "", contextRefusal(Podman, name, errors.New("there is no connection of that name"))
	}
	return file.Connection.Connections[name].URI, nil
}

// maxConfig bounds a file of settings.
const maxConfig = 1 << 20

func readJSON(file string, out any) error {
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular() || st.Size() > maxConfig:
		return fmt.Errorf("cannot read %q: it is no file of settings", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("cannot read %q: %w", file, err)
	}
	return nil
}

// Names are the engines, in the order in which they are looked for.
func Names() []string { return slices.Clone([]string{Docker, Podman}) }
