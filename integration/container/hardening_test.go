//go:build linux

package container_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"pinfold/container/engine"
)

// inspect is what an engine itself says of a container.
func (l *lab) inspect(t *testing.T, id string) map[string]any {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", strings.TrimPrefix(l.endpoint, "unix://"))
	}}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://engine/v1.41/containers/"+id+"/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHardenedByInspect: what the engine was asked for is what it made.
func TestHardenedByInspect(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		launch, err := b.plan(`{"write": ["{workspace}"]}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := launch.Covers.Make(b.own + "/scratch"); err != nil {
			t.Fatal(err)
		}
		ref, err := b.e.Create(t.Context(), launch.Spec)
		if err != nil {
			t.Fatal(err)
		}
		got := l.inspect(t, ref.ID)
		host, ok := got["HostConfig"].(map[string]any)
		if !ok {
			t.Fatalf("no HostConfig: %v", got)
		}
		config, ok := got["Config"].(map[string]any)
		if !ok {
			t.Fatalf("no Config: %v", got)
		}
		for name, want := range map[string]any{
			"NetworkMode": "none", "Privileged": false, "ReadonlyRootfs": true, "IpcMode": "private", "PidMode": "", "UTSMode": "",
			"PublishAllPorts": false, "AutoRemove": false,
		} {
			// "shareable" is podman's word for a private IPC namespace that
			// whoever owns the engine may have another container join.
			shareable := name == "IpcMode" && host[name] == "shareable" && l.engine == engine.Podman
			if host[name] != want && !(want == "" && host[name] == "private") && !shareable {
				t.Errorf("%s is %v, wanted %v", name, host[name], want)
			}
		}
		if config["User"] != itoa(l.uid)+":"+itoa(l.gid) {
			t.Errorf("User is %v", config["User"])
		}
		if n, ok := host["CapAdd"].([]any); ok && len(n) > 0 {
			t.Errorf("CapAdd is %v", n)
		}
		if n, ok := host["Devices"].([]any); ok && len(n) > 0 {
			t.Errorf("Devices is %v", n)
		}
		security := words(host["SecurityOpt"])
		if !slices.ContainsFunc(security, func(s string) bool { return strings.HasPrefix(s, "no-new-privileges") }) {
			t.Errorf("SecurityOpt lacks no-new-privileges: %.200v", security)
		}
		if slices.ContainsFunc(security, func(s string) bool { return strings.Contains(s, "unconfined") }) {
			t.Errorf("SecurityOpt: %.200v", security)
		}
		if pids, _ := host["PidsLimit"].(float64); launch.Spec.Limits.PIDs > 0 && int64(pids) != launch.Spec.Limits.PIDs {
			t.Errorf("PidsLimit is %v, wanted %d", host["PidsLimit"], launch.Spec.Limits.PIDs)
		}
		whole, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		for _, socket := range []string{"docker.sock", "podman.sock", "containerd.sock"} {
			if strings.Contains(string(whole), socket) {
				t.Errorf("it names %s", socket)
			}
		}
	})
}

func words(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, w := range list {
		s, _ := w.(string)
		out = append(out, s)
	}
	return out
}

// TestHardenedInside: the same, as a program inside sees it.
func TestHardenedInside(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		b := newBox(t, l)
		got := b.run(`{"write": ["{workspace}"], "limits": {"tmp": "1m"}}`, tries+`
			field() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
			for f in CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp; do echo "$f: $(field $f)"; done
			echo "uids: $(id -u) $(id -g)"
			try write-root touch /x
			try write-etc touch /etc/x
			try write-dev touch /dev/x
			try write-proc-sys sh -c 'echo 1 > /proc/sys/kernel/ns_last_pid || echo x > /proc/sys/kernel/hostname'
			try write-sys sh -c 'for f in /sys/kernel/* /sys/module/*; do [ -w $f ] && exit 0; done; exit 1'
			try write-cgroup sh -c 'find /sys/fs/cgroup -type d -exec mkdir {}/x \; | grep -q . || ls /sys/fs/cgroup/x /sys/fs/cgroup/*/x'
			try read-kcore dd if=/proc/kcore of=/dev/null bs=1 count=1
			try read-keys grep -q . /proc/keys
			try read-timer grep -q . /proc/timer_list
			try read-sched grep -q . /proc/sched_debug
			try sysrq sh -c 'echo h > /proc/sysrq-trigger'
			try mount mount -t tmpfs none /tmp
			try unshare unshare -U true
			try mknod mknod /tmp/null c 1 3
			try chroot chroot / true
			try raw-socket ping -c 1 127.0.0.1
			try set-hostname hostname other
			try kvm ls /dev/kvm /dev/fuse /dev/net/tun /dev/mem
			echo "interfaces: $(ls /sys/class/net | tr '\n' ' ')"
			echo "routes: $(tail -n +2 /proc/net/route | wc -l)"
			try reach-outside nc -w 1 192.0.2.2 22
			echo "processes: $(ls -d /proc/[0-9]* | grep -c -v -x "/proc/[1-9]\|/proc/[1-9][0-9]\|/proc/[1-9][0-9][0-9]")"
			echo "hostname: $(hostname)"
			try fill-tmp dd if=/dev/zero of=/tmp/big bs=65536 count=64
			try fill-shm dd if=/dev/zero of=/dev/shm/big bs=65536 count=64
			echo "tmp-owner: $(stat -c %u:%g /tmp)"
			echo "core: $(ulimit -c)"
		`)
		const none = "0000000000000000"
		checkAnswers(t, got, map[string]string{
			"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2",
			"uids": itoa(l.uid) + " " + itoa(l.gid), "write-root": "no", "write-etc": "no", "write-dev": "no", "write-proc-sys": "no", "write-sys": "no", "write-cgroup": "no",
			"read-kcore": "no", "read-keys": "no", "read-timer": "no", "read-sched": "no", "sysrq": "no", "mount": "no", "unshare": "no", "mknod": "no", "chroot": "no",
			"raw-socket": "no", "set-hostname": "no", "kvm": "no", "interfaces": "lo ", "routes": "0", "reach-outside": "no", "processes": "0", "hostname": "pinfold",
			"fill-tmp": "no", "fill-shm": "no", "tmp-owner": itoa(l.uid) + ":" + itoa(l.gid), "core": "0",
		})
	})
}

// TestWritablePlaces: an engine has places of its own for files, a tmpfs on /dev
// or on /run, that no limit counts. Those that pinfold gives are all there are,
// for root as well, whose such places are.
func TestWritablePlaces(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		got := p.wrap(map[string]any{"limits": map[string]any{"tmp": "1m"}}, `
			for d in $(find / -type d -not -path "/proc/*" -not -path "$PWD*" -not -path "*/state/run/*" -not -path /dev/mqueue 2>/dev/null | sort); do
				touch $d/x 2>/dev/null || continue
				echo $d
				dd if=/dev/zero of=$d/x bs=65536 count=64 2>/dev/null && echo "no bound"
			done
			echo x >/dev/null && head -c 1 /dev/zero >/dev/null && head -c 1 /dev/urandom >/dev/null && echo devices
		`)
		want := "/dev/shm\n/tmp\n/var/tmp\ndevices\n"
		if l.name == "podman" && os.Getuid() == 0 {
			want = "/dev\nno bound\n" + want // nothing of its API makes that one read-only
		}
		if got.code != 0 || got.stdout != want {
			t.Error(got)
		}
	})
}
