package policy

// The tables of [DefaultDenies]. docs/policy.md lists them.

// credentialPaths hold secrets that tools keep in a home.
var credentialPaths = []string{
	"~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.config/gh", "~/.config/glab-cli",
	"~/.docker/config.json", "~/.config/containers/auth.json", "~/.netrc", "~/.git-credentials", "~/.config/git/credentials",
	"~/.npmrc", "~/.pypirc", "~/.cargo/credentials.toml", "~/.cargo/credentials", "~/.m2/settings.xml",
	"~/.gradle/gradle.properties", "~/.pgpass", "~/.my.cnf", "~/.config/op", "~/.config/rclone", "~/.config/sops",
	"~/.config/github-copilot", "~/.password-store", "~/.local/share/keyrings", "~/.vault-token",
	"~/.terraform.d/credentials.tfrc.json", "~/.claude/.credentials.json", "~/.codex/auth.json", "~/.gemini/oauth_creds.json",
}

// historyPaths are what shells and prompts remember; people type secrets.
var historyPaths = []string{
	"~/.bash_history", "~/.zsh_history", "~/.zhistory", "~/.histfile", "~/.history", "~/.sh_history", "~/.ksh_history",
	"~/.local/share/fish/fish_history", "~/.config/nushell/history.txt", "~/.config/nushell/history.sqlite3",
	"~/.local/share/powershell/PSReadLine", "~/.local/share/atuin", "~/.zsh_sessions", "~/.bash_sessions", "~/.python_history",
	"~/.node_repl_history", "~/.irb_history", "~/.psql_history", "~/.mysql_history", "~/.mariadb_history", "~/.sqlite_history",
	"~/.rediscli_history", "~/.dbshell", "~/.mongodb/mongosh", "~/.lesshst", "~/.viminfo",
}

// linuxProfiles are browser and mail profiles: cookies and passwords.
var linuxProfiles = []string{
	"~/.mozilla", "~/.thunderbird", "~/.librewolf", "~/.waterfox", "~/.zen", "~/.config/google-chrome",
	"~/.config/google-chrome-beta", "~/.config/google-chrome-unstable", "~/.config/chromium", "~/.config/BraveSoftware",
	"~/.config/microsoft-edge", "~/.config/microsoft-edge-dev", "~/.config/vivaldi", "~/.config/opera", "~/.config/mozilla",
	"~/snap/firefox", "~/snap/chromium", "~/snap/thunderbird", "~/.var/app/org.mozilla.firefox",
	"~/.var/app/org.mozilla.Thunderbird", "~/.var/app/com.google.Chrome", "~/.var/app/org.chromium.Chromium",
	"~/.var/app/com.brave.Browser", "~/.var/app/com.microsoft.Edge", "~/.var/app/com.vivaldi.Vivaldi",
}

var darwinProfiles = []string{
	"~/Library/Keychains", "~/Library/Cookies", "~/Library/Safari", "~/Library/Containers/com.apple.Safari",
	"~/Library/Application Support/Google/Chrome", "~/Library/Application Support/Google/Chrome Beta",
	"~/Library/Application Support/Chromium", "~/Library/Application Support/BraveSoftware",
	"~/Library/Application Support/Microsoft Edge", "~/Library/Application Support/Arc",
	"~/Library/Application Support/Vivaldi", "~/Library/Application Support/com.operasoftware.Opera",
	"~/Library/Application Support/Firefox", "~/Library/Thunderbird", "~/Library/HTTPStorages", "~/Library/Mail",
	"~/Library/Messages", "/Library/Keychains",
}

// rootPaths are readable to root alone, so only root's launches deny them.
var rootPaths = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key",
	"/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_dsa_key", "/etc/ssl/private", "/etc/kubernetes", "/run/secrets",
	"/run/credentials", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
}

// darwinRootPaths are their like on macOS: password hashes, and the key of the
// system's keychain.
var darwinRootPaths = []string{
	"/etc/master.passwd", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
	"/etc/ssl/private", "/var/db/dslocal", "/var/db/SystemKey",
}

// homeSockets are agents' and engines' sockets in a home.
var homeSockets = []string{
	"~/.gnupg/S.gpg-agent", "~/.gnupg/S.gpg-agent.extra", "~/.gnupg/S.gpg-agent.browser", "~/.gnupg/S.gpg-agent.ssh",
	"~/.gnupg/S.scdaemon", "~/.gnupg/S.keyboxd", "~/.docker/run/docker.sock", "~/.docker/desktop/docker.sock",
	"~/.docker/desktop/docker-cli.sock", "~/.1password/agent.sock", "~/.orbstack/run", "~/.colima/default/docker.sock",
	"~/.rd/docker.sock", "~/.lima/default/sock",
}

// linuxSockets are the machine's. /run and /var/run are one directory on
// every current system; where they aren't, both spellings are meant.
var linuxSockets = []string{
	"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
	"/run/crio/crio.sock", "/run/buildkit/buildkitd.sock", "/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket",
	"/var/lib/incus/unix.socket", "/run/libvirt", "/run/snapd.socket", "/run/snapd-snap.socket",
	"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket",
	"/run/systemd/private", "/run/systemd/notify", "/run/systemd/io.systemd.ManagedOOM",
	"/run/systemd/userdb", "/run/systemd/journal", "/run/systemd/machine", "/run/systemd/coredump",
	"/run/systemd/resolve", "/run/nscd", "/run/avahi-daemon", "/var/lib/sss/pipes",
	"/tmp/.X11-unix", "/tmp/.ICE-unix", "/run/screen", "/run/pcscd/pcscd.comm", "/run/WSL", "/mnt/wslg",
}

var darwinSockets = []string{
	"/var/run/docker.sock", "/private/var/run/docker.sock", "/var/run/mDNSResponder", "/private/var/run/mDNSResponder",
}
