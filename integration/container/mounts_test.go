//go:build linux

package container_test

import (
	"testing"
)

// tries runs each command inside and says "name: yes" where it succeeds.
const tries = `try() { n=$1; shift; if "$@" >/dev/null 2>&1; then echo "$n: yes"; else echo "$n: no"; fi; }
`

// TestMounts: what is granted shows at the host's own path and as it was
// granted, what is taken away is covered, and nothing else of the host shows.
func TestMounts(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		b.file(b.workspace+"/file", "mine")
		b.file(b.workspace+"/vendor/lib", "lib")
		b.file(b.workspace+"/secret/key", "key")
		b.file(b.workspace+"/secret/public/note", "note")
		b.file(b.workspace+"/.env", "PASSWORD=x")
		b.file(b.workspace+"/.git/config", "[core]")
		b.file(b.workspace+"/.git/hooks/pre-commit", "x")
		b.file(b.workspace+"/.git/HEAD", "ref: refs/heads/main")
		b.file(b.workspace+"/.git/objects/x", "x")
		b.file(b.home+"/docs/a", "a")
		b.file(b.home+"/other/b", "b")
		b.file(b.home+"/.ssh/id", "private")
		got := b.run(`{"write": ["{workspace}"], "read": {"allow": ["@home/docs", "@w/secret/public"], "deny": ["@w/secret", "@w/.env"]}, "read_only": ["@w/vendor"],
			"container": {"mounts": [{"source": "@home/docs", "target": "/kb"}, {"source": "@w", "target": "/work", "mode": "rw"}]}}`, tries+`
			try read-workspace grep -q mine @w/file
			try write-workspace touch @w/new
			try read-vendor cat @w/vendor/lib
			try write-vendor touch @w/vendor/new
			try overwrite-vendor sh -c 'echo x > @w/vendor/lib'
			try rename-vendor mv @w/vendor @w/v2
			try list-secret ls @w/secret
			try read-secret cat @w/secret/key
			try write-secret touch @w/secret/new
			try rename-secret mv @w/secret @w/s2
			try read-public cat @w/secret/public/note
			try read-env cat @w/.env
			try remove-env rm -f @w/.env
			try read-git-config cat @w/.git/config
			try write-git-config sh -c 'echo x >> @w/.git/config'
			try write-hook touch @w/.git/hooks/new
			try rename-git mv @w/.git @w/g
			try write-git sh -c 'echo x > @w/.git/HEAD.lock && mv @w/.git/HEAD.lock @w/.git/HEAD'
			try read-docs cat @home/docs/a
			try write-docs touch @home/docs/new
			try read-kb cat /kb/a
			try write-kb touch /kb/new
			try write-target touch /work/by-target
			try read-secret-target cat /work/secret/key
			try write-vendor-target touch /work/vendor/x
			try read-other cat @home/other/b
			try list-ssh ls @home/.ssh
			try write-home touch @home/new
			try write-root touch /new
			try write-tmp touch /tmp/new
			try write-var-tmp touch /var/tmp/new
			try write-shm touch /dev/shm/new
			try engine-socket ls /run/docker.sock /var/run/docker.sock
			echo "home: $(ls -A @home | tr '\n' ' ')"
			echo "tmp-owner: $(stat -c %u /tmp)"
			echo "id: $(id -u):$(id -g) $(id -G)"
		`)
		checkAnswers(t, got, map[string]string{
			"read-workspace": "yes", "write-workspace": "yes", "read-vendor": "yes", "write-vendor": "no", "overwrite-vendor": "no", "rename-vendor": "no",
			"list-secret": "no", "read-secret": "no", "write-secret": "no", "rename-secret": "no", "read-public": "yes", "read-env": "no", "remove-env": "no",
			"read-git-config": "yes", "write-git-config": "no", "write-hook": "no", "rename-git": "no", "write-git": "yes",
			"read-docs": "yes", "write-docs": "no", "read-kb": "yes", "write-kb": "no", "write-target": "yes", "read-secret-target": "no", "write-vendor-target": "no",
			"read-other": "no", "list-ssh": "no", "write-home": "no", "write-root": "no",
			"write-tmp": "yes", "write-var-tmp": "yes", "write-shm": "yes", "engine-socket": "no",
			"home": "docs w ", "tmp-owner": itoa(l.uid), "id": itoa(l.uid) + ":" + itoa(l.gid) + " " + itoa(l.gid),
		})
	})
}
