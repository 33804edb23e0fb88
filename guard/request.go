package guard

// Request is what one launch brings. The policy decides; what is asked for
// here is only checked against it.
type Request struct {
	Argv []string
	// Dir is --chdir; "" means the caller's directory where it is visible
	// inside, else the workspace.
	Dir string
	// CallerDir is the directory the caller stands in.
	CallerDir string
	// Env is the environment offered to the command ("NAME=value").
	Env []string
	// EnvAdd are --env entries: NAME=VALUE, or NAME to pass one on.
	EnvAdd []string

	Workspace string // absolute, taken literally
	// WorkspaceMade and RunMade: pinfold made the directory for this launch
	// alone (--workspace tmp, no --run-dir), so that nobody else has a name
	// for it.
	WorkspaceMade bool
	RunMade       bool

	RunDir   string // "" means that the launch has none
	RunsDir  string // the run directory must lie beneath, where set
	Toolbelt string // unix socket, {toolbelt}
	Home     string // {home}, "~"
	HomeSeed string
	// HomeNamed: the caller chose Home, so it must be there. An account's own
	// may be missing.
	HomeNamed bool
	Record    string // record directory; protected
	State     string // state directory; protected
	// Runtime is $XDG_RUNTIME_DIR, SSHAuthSock $SSH_AUTH_SOCK: escape sockets.
	Runtime     string
	SSHAuthSock string
	// PolicyFile is protected from writes where it lies in a write grant, and
	// so are the Settings: the directories that the next launch finds its
	// policy and its ceilings in. The SettingsFiles are what may lie elsewhere
	// and is read there all the same, by a link or by name.
	PolicyFile    string
	Settings      []string
	SettingsFiles []string
	// Kept is what else the next launch uses outside of the boundary.
	Kept []Kept

	Owner Owner
	Needs Needs
	// Protect is the caller's protected set, Share its read-only exceptions.
	Protect []string
	Share   []string

	UID, GID   int
	MaxEntries int // hard-link walk bound; 0 means the default
}

// Variable is one of the environment offered, "" where it isn't set.
func (r *Request) Variable(name string) string {
	v, _ := lookupEnv(r.Env, name)
	return v
}

// Owner labels a launch for whoever started it.
type Owner struct {
	Execution string `json:"execution,omitempty"`
	Segment   string `json:"segment,omitempty"`
}

// Needs is what the command says it must reach (--needs FILE). A need outside
// the grant refuses the launch; it never widens the grant.
type Needs struct {
	Read     []string `json:"read,omitempty"`
	Write    []string `json:"write,omitempty"`
	ReadOnly []string `json:"read_only,omitempty"`
	Deny     []string `json:"deny,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`
	Sockets  []string `json:"sockets,omitempty"`
}
