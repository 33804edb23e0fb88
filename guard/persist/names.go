package persist

import (
	"path"
	"slices"
	"strings"
)

// byName are files that are run wherever they lie.
var byName = map[string]string{
	".envrc": "direnv", ".mcp.json": "MCP clients", "package.json": "package scripts", ".npmrc": "npm", ".yarnrc.yml": "yarn",
	".gitmodules": "git submodules", ".pre-commit-config.yaml": "pre-commit", "lefthook.yml": "lefthook", ".lefthook.yml": "lefthook",
	".gitlab-ci.yml": "CI", ".travis.yml": "CI", "azure-pipelines.yml": "CI", "bitbucket-pipelines.yml": "CI", "Jenkinsfile": "CI",
	".drone.yml": "CI", ".woodpecker.yml": "CI", ".cirrus.yml": "CI", "appveyor.yml": "CI",
	"sitecustomize.py": "Python start-up", "usercustomize.py": "Python start-up",
	"devcontainer.json": "dev containers", ".devcontainer.json": "dev containers",
	".bashrc": "shell start-up", ".bash_profile": "shell start-up", ".bash_login": "shell start-up", ".profile": "shell start-up",
	".zshrc": "shell start-up", ".zshenv": "shell start-up", ".zprofile": "shell start-up", ".zlogin": "shell start-up",
	".claude.json": "agents", ".aider.conf.yml": "agents", "mise.toml": "mise", ".mise.toml": "mise", ".tool-versions": "asdf",
}

// byParent are files that are run where they lie in a directory of this name;
// "*" is any file.
var byParent = map[string]map[string]string{
	".vscode":   {"tasks.json": "editor tasks", "settings.json": "editor settings", "launch.json": "editor tasks", "mcp.json": "MCP clients"},
	".idea":     {"workspace.xml": "editor tasks", "watcherTasks.xml": "editor tasks"},
	".cargo":    {"config.toml": "cargo", "config": "cargo"},
	".circleci": {"config.yml": "CI"},
	".husky":    {"*": "git hooks"},
	".cursor":   {"mcp.json": "MCP clients", "hooks.json": "agents"},
	".claude":   {"settings.json": "agents", "settings.local.json": "agents"},
	".gemini":   {"settings.json": "agents"},
	".codex":    {"config.toml": "agents"},
	"autostart": {"*": "desktop start-up"},
}

// byGrandparent are files in a directory of this name and its parent's.
var byGrandparent = map[string]string{
	".github/workflows": "CI", ".forgejo/workflows": "CI", ".gitea/workflows": "CI", ".idea/runConfigurations": "editor tasks",
	".claude/hooks": "agents", ".claude/commands": "agents", ".claude/agents": "agents", "systemd/user": "systemd",
}

// whatRuns says who runs a file, or "".
func whatRuns(file string) string {
	name, dir := path.Base(file), path.Dir(file)
	if what := byName[name]; what != "" {
		return what
	}
	if strings.HasSuffix(name, ".pth") {
		return "Python start-up"
	}
	if names := byParent[path.Base(dir)]; names != nil {
		if what := names[name]; what != "" {
			return what
		}
		return names["*"]
	}
	return byGrandparent[path.Join(path.Base(path.Dir(dir)), path.Base(dir))]
}

// inGit are the files of a git directory that git runs, or that name what it
// runs. Samples aren't run.
func inGit(name string) string {
	switch {
	case slices.Contains([]string{"config", "config.worktree", "info/attributes"}, name):
		return "git configuration"
	case strings.HasPrefix(name, "hooks/") && !strings.HasSuffix(name, ".sample"):
		return "git hooks"
	}
	return ""
}

// notEntered are directories whose contents are others' work by the thousand.
var notEntered = []string{"node_modules"}
