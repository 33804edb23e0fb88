package plan

import "time"

// Container is what was made for a launch in the container tier: written once
// it was made and before it is started, so that a later reader can prove that
// a container is the one that was pinned here.
type Container struct {
	Provider string `json:"provider"`
	Daemon   string `json:"daemon"`   // identity of the engine that made it
	Endpoint string `json:"endpoint"` // where that listened
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Image    string `json:"image"`  // the ID of what it was made from
	Digest   string `json:"digest"` // of the plan
	// Labels are those that tell it from every other.
	Labels map[string]string `json:"labels"`
	// Pinned is when this was written: it was started later.
	Pinned time.Time `json:"pinned"`
	// Dirs is the root of the directories that it has mounted, on the host.
	Dirs string `json:"dirs"`
	// Nonce is what the stub knows of this launch, in hexadecimal.
	Nonce string `json:"nonce"`
}

const containerFile = "container"

// WriteContainer writes what was made.
func (r *Record) WriteContainer(c Container) error { return r.writeJSON(containerFile, c) }
