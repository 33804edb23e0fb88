package persist

import (
	"slices"
	"strings"
)

// The kinds of what runs a file, the most telling first: what runs soonest,
// with the least asked, and what a project's own work changes least.
const (
	gitHooks      = "git hooks"
	unlisted      = "can't be listed"
	gitDirectory  = "git directory"
	gitConfig     = "git configuration"
	gitTodo       = "git rebase"
	repository    = "nested repository"
	gitlink       = "gitlink"
	shells        = "shell start-up"
	login         = "login"
	desktop       = "desktop start-up"
	systemd       = "systemd"
	launchd       = "launchd"
	commands      = "commands on the PATH"
	direnv        = "direnv"
	agents        = "agents"
	mcp           = "MCP clients"
	editorTasks   = "editor tasks"
	editors       = "editor settings"
	ssh           = "ssh"
	python        = "Python start-up"
	interpreters  = "interpreter start-up"
	pinfold       = "pinfold"
	gitModules    = "git submodules"
	mise          = "mise"
	asdf          = "asdf"
	packageHooks  = "package managers"
	cargo         = "cargo"
	npm           = "npm"
	yarn          = "yarn"
	preCommit     = "pre-commit"
	lefthook      = "lefthook"
	devContainers = "dev containers"
	ci            = "CI"
	scripts       = "package scripts"
	hostPrograms  = "host programs"
)

// kinds orders them.
func kinds() []string {
	return []string{
		gitHooks, unlisted, gitDirectory, gitConfig, gitTodo, repository, gitlink, shells, login, desktop, systemd, launchd, commands, direnv,
		agents, mcp, editorTasks, editors, ssh, python, interpreters, pinfold, gitModules, mise, asdf, packageHooks, cargo, npm, yarn,
		preCommit, lefthook, devContainers, ci, hostPrograms, scripts,
	}
}

// labels say what the guard's names are run by: the first that begins one.
func labels() [][2]string {
	return [][2]string{
		{".vscode/mcp.json", mcp},
		{".vscode", editorTasks},
		{".idea", editorTasks},
		{".mcp.json", mcp},
		{".cursor/mcp.json", mcp},
		{".copilot/mcp-config.json", mcp},
		{".envrc", direnv},
		{".config/direnv", direnv},
		{".gitmodules", gitModules},
		{".husky", gitHooks},
		{".claude", agents},
		{".codex", agents},
		{".cursor", agents},
		{".gemini", agents},
		{".copilot", agents},
		{".config/opencode", agents},
		{".gitconfig", gitConfig},
		{".config/git", gitConfig},
		{".config/systemd", systemd},
		{".config/environment.d", login},
		{".pam_environment", login},
		{".config/pinfold", pinfold},
		{"Library/LaunchAgents", launchd},
		{".x", desktop},
		{".config/autostart", desktop},
		{".config/plasma-workspace", desktop},
		{".", shells},
		{"", hostPrograms},
	}
}

func labelOf(name string) string {
	all := labels()
	return all[slices.IndexFunc(all, func(l [2]string) bool { return strings.HasPrefix(name, l[0]) })][1]
}

// furtherNames are run or obeyed as well, and aren't guarded: a project's work
// is to write some of them, and before it obeys others its program asks.
func furtherNames() map[string][]string {
	return map[string][]string{
		scripts: {"package.json"},
		// direnv-stdlib(1): what an .envrc names that was approved once ("use
		// flake", "use nix", "source_env") runs as it is when the directory is
		// entered.
		direnv: {"flake.nix", "shell.nix", "devenv.nix", ".envrc.local"},
		// npm-config(7): "script-shell", "node-options" and "git" name what is run.
		npm: {".npmrc"},
		// yarnpkg.com/configuration/yarnrc: yarnPath is run in place of yarn
		// itself, plugins are loaded by each command. Version 1 has yarn-path.
		yarn: {".yarnrc.yml", ".yarnrc", ".yarn/plugins", ".yarn/releases"},
		// pnpm.io/pnpmfile: its hooks are called by pnpm install.
		// yarnpkg.com/features/pnp: loaded before each script. bun.com/docs,
		// bunfig.toml: "preload" is run before each script. Maven loads
		// .mvn/extensions.xml (maven.apache.org, "Configuring Apache Maven").
		packageHooks: {".pnpmfile.cjs", ".pnpmfile.mjs", ".pnp.cjs", ".pnp.loader.mjs", "bunfig.toml", ".mvn", ".config/pip", "pip.conf"},
		// doc.rust-lang.org/cargo, "Configuration": build.rustc-wrapper, runner and
		// linker; rustup: "path" of a toolchain file names the compiler itself.
		cargo: {".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"},
		// pre-commit.com: a local hook's "entry", at the next commit.
		preCommit: {".pre-commit-config.yaml"},
		lefthook:  {"lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".lefthook.yaml", "lefthook.toml", ".lefthook.toml", "lefthook-local.yml", ".lefthook"},
		// mise.jdx.dev: [hooks] and [env] of a file are obeyed on entering the
		// directory, once it is trusted; asdf-vm.com: the versions to run.
		mise: {"mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", "mise/config.toml", ".mise", ".config/mise", ".config/mise.toml", ".rtx.toml"},
		asdf: {".tool-versions"},
		ci: {
			".github/workflows", ".github/actions", ".github/hooks", ".forgejo/workflows", ".gitea/workflows", ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml",
			"bitbucket-pipelines.yml", "Jenkinsfile", ".drone.yml", ".woodpecker.yml", ".woodpecker", ".cirrus.yml", "appveyor.yml", ".circleci", ".buildkite",
		},
		devContainers: {"devcontainer.json", ".devcontainer.json", ".devcontainer", ".gitpod.yml"},
		python:        {"sitecustomize.py", "usercustomize.py"},
		// What interpreters and debuggers run when they start: R's ?Startup,
		// irb(1), pry, IPython's profile directory, psql(1), gdb(1), lldb(1).
		interpreters: {".Rprofile", ".irbrc", ".pryrc", ".ipython", ".psqlrc", ".sqliterc", ".gdbinit", ".lldbinit", ".tmux.conf"},
		// zed.dev/docs: tasks.json, and settings.json with the binaries of language
		// servers; docs.helix-editor.com: .helix/languages.toml likewise; Vim's and
		// Neovim's 'exrc'; code.visualstudio.com: a workspace file holds tasks.
		editorTasks: {".zed/tasks.json", ".zed/debug.json", ".idea"},
		editors: {
			".zed", ".helix", ".config/helix", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs",
			".dir-locals.el", ".dir-locals-2.el", ".vscode/settings.json",
		},
		// code.claude.com/docs, "Skills": commands in a skill are run when it is
		// used; opencode.ai/docs/plugins: loaded at start; kiro.dev/docs/hooks;
		// docs.windsurf.com, "Hooks".
		agents: {
			".claude/skills", ".claude/plugins", ".opencode", "opencode.json", "opencode.jsonc", ".aider.conf.yml", ".kiro/hooks", ".kiro/agents",
			".windsurf/hooks.json", ".windsurf/workflows", ".qwen/settings.json", ".amazonq/cli-agents", ".codex/skills", ".codex/rules",
		},
		// Servers that an agent starts by itself.
		mcp: {".kiro/settings", ".roo/mcp.json", ".windsurf/mcp_config.json", ".amazonq/mcp.json", ".vscode/mcp.json", "mcp.json"},
		// sshd(8): ~/.ssh/rc at each login; ssh_config(5): ProxyCommand, Match exec.
		ssh: {".ssh"},
		// Programs of the user's that come before the system's (systemd's
		// file-hierarchy(7) has it on the PATH).
		commands: {".local/bin"},
		systemd:  {"systemd/user"},
		desktop:  {"autostart"},
	}
}

// bySuffix are files by the end of their names: site(3) of Python runs lines
// of *.pth, and an editor's workspace file holds tasks and settings.
func bySuffix() map[string]string {
	return map[string]string{".pth": python, ".code-workspace": editorTasks}
}
