package policy

import (
	"path"
	"strings"
)

// GuardedNames are the files that programs on the host run or obey, so that a
// command could plant something there which acts outside the boundary later.
// They stay read-only even inside a write grant. All are relative and clean;
// what exists of them, and which repositories there are, is for package guard
// to see.
type GuardedNames struct {
	// Top stands at the top of the workspace and of each git repository.
	Top []string
	// GitDir stands in a repository's git directory.
	GitDir []string
	// GitModule stands in each <git directory>/modules/*, which nest.
	GitModule []string
	// GitWorktree stands in each <git directory>/worktrees/*.
	GitWorktree []string
	// Home stands in a home directory that a write grant holds.
	Home []string
	// Agents are the configuration directories of agents.
	Agents []AgentDir
	// Variables name further start-up files, wherever they are.
	Variables []StartVariable
}

// StartVariable is a variable of the caller's that names what every later
// program of a kind runs or obeys.
type StartVariable struct {
	Variable string
	// Names are the files in the directory that it names; none where it names
	// the file.
	Names []string
	// Relative: a relative value counts, from the caller's directory on.
	Relative bool
}

// Paths are the files that a value names: none, unless it is a path that isn't
// the kernel's.
func (v StartVariable) Paths(value, dir string) []string {
	if v.Relative && value != "" && !path.IsAbs(value) {
		value = path.Join(dir, value)
	}
	names := v.Names
	if len(names) == 0 {
		names = []string{""}
	}
	var out []string
	for _, place := range (MovedCredential{}).places(value) {
		for _, n := range names {
			out = append(out, path.Join(place, n))
		}
	}
	return out
}

// ConfigHome is where a name stands, relative to $XDG_CONFIG_HOME; false for one
// that isn't beneath ~/.config.
func ConfigHome(name string) (string, bool) { return strings.CutPrefix(name, ".config/") }

// AgentDir is the configuration directory of one agent.
type AgentDir struct {
	// Dir is where it stands in a home; Variable names the environment
	// variable that moves it, "" for none. A directory that the command's own
	// variable names is the command's own, and isn't guarded.
	Dir      string
	Variable string
	// Names are guarded in it.
	Names []string
}

// GuardedWorkspaceNames is the table of guarded names. The caller may change
// what it gets.
func GuardedWorkspaceNames() GuardedNames {
	return GuardedNames{
		Top: []string{
			".vscode", ".idea", ".mcp.json", ".envrc", ".gitmodules", ".husky", ".claude/settings.json",
			".claude/settings.local.json", ".claude/hooks", ".claude/commands", ".claude/agents", ".cursor/mcp.json",
			".cursor/hooks.json", ".gemini/settings.json", ".codex/config.toml", ".codex/hooks.json",
		},
		GitDir:      []string{"config", "config.worktree", "hooks", "info", "commondir"},
		GitModule:   []string{"config", "config.worktree", "hooks", "info", "commondir"},
		GitWorktree: []string{"gitdir", "commondir", "config.worktree"},
		Home:        guardedHome(),
		Agents:      guardedAgents(),
		Variables: []StartVariable{
			{Variable: "ZDOTDIR", Names: []string{".zshenv", ".zshrc", ".zprofile", ".zlogin", ".zlogout"}},
			{Variable: "BASH_ENV"},
			{Variable: "ENV"},
			{Variable: "INPUTRC"},
			{Variable: "PYTHONSTARTUP"},
			{Variable: "GIT_CONFIG_GLOBAL", Relative: true},
			{Variable: "GIT_CONFIG_SYSTEM", Relative: true},
		},
	}
}

// guardedHome are shell start-up files and what else a login or a git command
// of the host runs.
func guardedHome() []string {
	return []string{
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile",
		".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".config/fish",
		".config/powershell", ".config/nushell", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment",
		".config/environment.d", ".config/autostart", ".config/systemd", ".config/plasma-workspace", ".gitconfig", ".config/git",
		".config/direnv", ".config/pinfold", ".envrc", "Library/LaunchAgents",
	}
}

func guardedAgents() []AgentDir {
	return []AgentDir{
		{Dir: "", Names: []string{".claude.json"}},
		{Dir: ".claude", Variable: "CLAUDE_CONFIG_DIR", Names: []string{
			".claude.json", "settings.json", "settings.local.json", "hooks", "commands", "agents", "plugins",
		}},
		{Dir: ".codex", Variable: "CODEX_HOME", Names: []string{"config.toml", "hooks.json", "prompts", "AGENTS.md"}},
		{Dir: ".gemini", Names: []string{"settings.json", "commands", "extensions"}},
		{Dir: ".cursor", Names: []string{"mcp.json", "hooks.json", "extensions", "commands"}},
		{Dir: ".config/opencode", Variable: "OPENCODE_CONFIG_DIR", Names: []string{
			"opencode.json", "opencode.jsonc", "plugin", "command", "agent",
		}},
		{Dir: ".copilot", Names: []string{"config.json", "mcp-config.json"}},
	}
}
