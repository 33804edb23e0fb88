package container

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"pinfold/guard"
)

// Provider is an engine, as far as a launch needs one. Docker and podman are
// in container/engine; container/conformance is what each has to pass.
//
// A method that can't ask the engine returns an error, never an empty answer:
// no listing that failed may pass for "none".
type Provider interface {
	// Name is what a policy calls it: "docker", "podman".
	Name() string
	// Info asks who answers and what it can do here.
	Info(ctx context.Context) (Info, error)
	// Resolve finds a local image by name, digest or ID. It never pulls.
	Resolve(ctx context.Context, image string) (Image, error)
	// Plan translates a Grant for this engine. It makes nothing.
	Plan(ctx context.Context, g *guard.Grant, o Options) (*Launch, error)
	// Create makes the container and doesn't start it.
	Create(ctx context.Context, s Spec) (Ref, error)
	// Start starts a created container. One that runs, or ever ran, is an
	// error: engines themselves would say nothing, or run it again.
	Start(ctx context.Context, r Ref) error
	// Signal sends one signal to pid 1 inside.
	Signal(ctx context.Context, r Ref, sig syscall.Signal) error
	// Stop sends SIGTERM, after the grace SIGKILL, and returns once Inspect
	// says that it doesn't run. One that doesn't run or is gone is stopped.
	Stop(ctx context.Context, r Ref, grace time.Duration) error
	// Wait returns the state once the container has ended. It survives a
	// restart of the engine as long as ctx allows, and starts nothing.
	Wait(ctx context.Context, r Ref) (State, error)
	// Inspect asks for one container. One that the engine doesn't hold is a
	// State of status Gone, and no error.
	Inspect(ctx context.Context, r Ref) (State, error)
	// List asks for all containers, running or not, that carry every one of
	// the labels; an empty value asks for the label whatever its value.
	List(ctx context.Context, labels map[string]string) ([]State, error)
	// Remove kills and removes the container with its anonymous volumes. One
	// that is gone is no error.
	Remove(ctx context.Context, r Ref) error
	// Close lets connections go.
	Close() error
}

// ErrNoContainer is in the error of a method that needs a container which the
// engine doesn't hold (Start, Signal, Wait).
var ErrNoContainer = errors.New("no such container")

// ErrImageUsed is in the error of removing an image that containers were made
// from.
var ErrImageUsed = errors.New("a container was made from it")

// ErrOtherEngine is in the error of a method that is given another engine's
// container: an engine that doesn't know an ID can't tell that it is gone.
var ErrOtherEngine = errors.New("it is another engine's")

// Ref names one container of one engine.
type Ref struct {
	Provider string `json:"provider"` // Provider.Name
	Daemon   string `json:"daemon"`   // Info.Identity of the engine that made it
	Endpoint string `json:"endpoint"` // where that engine listened: "unix:///run/docker.sock"
	ID       string `json:"id"`       // 64 hexadecimal digits
}

// Info is what an engine says of itself.
type Info struct {
	Provider string `json:"provider"`
	Endpoint string `json:"endpoint"`
	Version  string `json:"version"`
	API      string `json:"api"` // version of the API that is spoken
	// Identity stays the same over restarts of one engine and differs between
	// engines: docker's own ID; for podman, whose ID is new on every call, the
	// place of its storage with device and inode.
	Identity string `json:"identity"`
	// Rootless: the engine runs without privileges, as RootlessUID.
	Rootless bool `json:"rootless"`
	// Remapped: docker's userns-remap is on.
	Remapped bool     `json:"remapped,omitempty"`
	Kernel   string   `json:"kernel"`
	Arch     string   `json:"arch"` // GOARCH
	Cgroup   int      `json:"cgroup"`
	Runtime  string   `json:"runtime"`            // runc, crun
	Security []string `json:"security,omitempty"` // "apparmor", "selinux", "seccomp"
	// LiveRestore: containers outlive the engine's own end.
	LiveRestore bool `json:"live_restore,omitempty"`
	// CanLimit says which limits the engine can set here.
	CanLimit CanLimit `json:"can_limit"`
	Warnings []string `json:"warnings,omitempty"`
}

// CanLimit says which limits an engine can set where it runs.
type CanLimit struct{ CPU, Memory, Swap, PIDs bool }

// Image is a local image, pinned.
type Image struct {
	Name    string   `json:"name"` // as asked for
	ID      string   `json:"id"`   // "sha256:…": what Create is given
	Tags    []string `json:"tags,omitempty"`
	Digests []string `json:"digests,omitempty"` // "repo@sha256:…" where it was pulled
	Arch    string   `json:"arch"`
	OS      string   `json:"os"`
	// What the image would run and in which environment. Of these pinfold
	// takes the environment alone.
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Env        []string          `json:"env,omitempty"`
	User       string            `json:"user,omitempty"`
	Dir        string            `json:"dir,omitempty"`
	Volumes    []string          `json:"volumes,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Created    time.Time         `json:"created"`
	Size       int64             `json:"size"`
}

// Status is where a container is in its life.
type Status string

// The statuses. Anything else an engine says is passed on as it is, and is
// neither running nor ended.
const (
	Created    Status = "created"
	Running    Status = "running"
	Paused     Status = "paused"
	Restarting Status = "restarting"
	Removing   Status = "removing"
	Exited     Status = "exited"
	Dead       Status = "dead"
	Gone       Status = "gone" // the engine answered and holds no such container
)

// KilledCode is the exit code of a container whose first process was killed:
// 128 and SIGKILL. It says nothing of how the command ended.
const KilledCode = 137

// State is what an engine says of one container.
type State struct {
	Ref    Ref    `json:"ref"` // Daemon is the identity of the engine that answered
	Name   string `json:"name,omitempty"`
	Status Status `json:"status"`
	// Pid is pid 1 inside, as the host sees it; 0 unless it runs.
	Pid      int  `json:"pid,omitempty"`
	ExitCode int  `json:"exit_code"`
	OOM      bool `json:"oom,omitempty"` // docker only: podman on cgroup v1 never says so
	// Unseen: it has ended, and the engine's process that minded it didn't live
	// to see how. ExitCode is [KilledCode] then, as docker has it.
	Unseen bool `json:"unseen,omitempty"`
	// Error is what the engine says went wrong at the start.
	Error      string            `json:"error,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	StartedAt  time.Time         `json:"started_at"` // zero until it was started
	FinishedAt time.Time         `json:"finished_at"`
	Labels     map[string]string `json:"labels,omitempty"`
	ImageID    string            `json:"image_id,omitempty"`
	// Sources are the host paths of its binds.
	Sources []string `json:"sources,omitempty"`
}

// Alive reports whether a process of the container may still run: anything
// but a clear no.
func (s State) Alive() bool {
	return s.Status != Created && s.Status != Exited && s.Status != Dead && s.Status != Gone
}

// Ended reports whether it was started and has ended.
func (s State) Ended() bool {
	return (s.Status == Exited || s.Status == Dead) && !s.StartedAt.IsZero()
}

// KillSeen reports whether all that the engine knows of the end is that the
// first process was killed.
func (s State) KillSeen() bool { return s.ExitCode == KilledCode }

// HasLabels reports whether all of want are among have; an empty value stands
// for any.
func HasLabels(have, want map[string]string) bool {
	for name, value := range want {
		got, ok := have[name]
		if !ok || value != "" && got != value {
			return false
		}
	}
	return true
}

// IsImageID reports whether an image is named by its ID, the digest of its
// configuration: what a container is made from.
func IsImageID(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
