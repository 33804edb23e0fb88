package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"pinfold/container/conformance"
	"pinfold/container/engine"
)

// busybox is a static program to make an image of, and to compare with
// outside.
const busybox = "/bin/busybox"

// engineUnderTest is one engine with its own client.
type engineUnderTest struct {
	name, client, endpoint string
	args                   []string // of the client, before its command
}

// containers compares launches in containers with the engines' own.
func (b *bench) containers() error {
	if err := b.containersOf(engineUnderTest{engine.Docker, "docker", "unix:///run/docker.sock", nil}); err != nil {
		return err
	}
	return b.podman()
}

// podman is the one that CONTAINER_HOST names, or one of the bench's own, whose
// command line starts containers without asking a service.
func (b *bench) podman() (err error) {
	if at := os.Getenv("CONTAINER_HOST"); at != "" {
		return b.containersOf(engineUnderTest{engine.Podman, "podman", at, []string{"--remote", "--url", at}})
	}
	p, err := b.startPodman()
	if err != nil {
		b.notThere(engine.Podman, err)
		return nil
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := os.Setenv("CONTAINER_HOST", p.endpoint()); err != nil {
		return err
	}
	return b.containersOf(engineUnderTest{engine.Podman, p.path, p.endpoint(), append([]string{"--remote=false"}, p.storage...)})
}

// notThere is the row of an engine that can't be measured, and says why.
func (b *bench) notThere(name string, why error) {
	fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, why)
	b.rows = append(b.rows, row{launchIn(name), "", "not there", "", "at most 1.15 ×"})
}

func launchIn(name string) string {
	return "launch of `true` in a container, against " + name + " run"
}

func (b *bench) containersOf(e engineUnderTest) error {
	image, err := b.image(e)
	if err != nil {
		b.notThere(e.name, err)
		return nil
	}
	policy, err := b.write(e.name+".json", map[string]any{
		"tier": "container", "write": []string{"{workspace}"}, "container": map[string]any{"runtime": e.name, "image": image},
	})
	if err != nil {
		return err
	}
	run := append(append([]string{e.client}, e.args...), "run", "--rm", "--pull", "never", "--network", "none")
	m, err := turns(b.peerRuns, b.plain("pinfold", b.wrap(policy, "true")...), b.plain(e.name, append(run, image, "true")...))
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{launchIn(e.name), ms(m[0]), ms(m[1]), times(m[0], m[1]), "at most 1.15 ×"})
	if e.name == engine.Docker {
		if err := b.usualWay(e, image, m[0]); err != nil {
			return err
		}
	}
	return b.containerDownload(e, image)
}

// image puts busybox into the engine as an image, and answers its ID.
func (b *bench) image(e engineUnderTest) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	program, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	files := map[string]conformance.File{"bin/busybox": {Mode: 0o755, Content: program}}
	for _, name := range []string{"sh", "true", "sleep", "wget", "cut", "awk"} {
		files["bin/"+name] = conformance.File{Link: "/bin/busybox"}
	}
	i := conformance.Image{Files: files, Name: "pinfold-bench/busybox:1", Architecture: runtime.GOARCH, Config: conformance.ImageConfig{Env: []string{"PATH=/bin"}}}
	archive, id, err := i.Tar()
	if err != nil {
		return "", err
	}
	c, err := engine.Connect(ctx, e.name, e.endpoint)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Resolve(ctx, id); err == nil {
		return id, nil
	}
	return id, c.Load(ctx, bytes.NewReader(archive))
}

// usualWay is how others keep a container to some hosts: a network of its own,
// a second container that is its gateway, and the command's.
func (b *bench) usualWay(e engineUnderTest, image string, ours time.Duration) error {
	script := fmt.Sprintf(`set -e; d=%s; i=%s; n=pinfold-bench-$$
$d network create --internal $n >/dev/null; $d network create $n-out >/dev/null
$d create --name $n-gw --network $n-out $i sleep 60 >/dev/null
$d network connect --alias gateway $n $n-gw; $d start $n-gw >/dev/null
$d run --rm --pull never --network $n --read-only --cap-drop ALL --security-opt no-new-privileges $i true
$d rm -f $n-gw >/dev/null; $d network rm $n $n-out >/dev/null`, e.client, image)
	m, err := turns(3, b.plain("the usual way", "sh", "-c", script))
	if err != nil {
		b.rows = append(b.rows, row{"the same, against an internal network and a gateway container", ms(ours), "can't be made here", "", ""})
		return nil //nolint:nilerr // networks need what a machine may lack
	}
	b.rows = append(b.rows, row{"the same, against an internal network and a gateway container", ms(ours), ms(m[0]), times(ours, m[0]), ""})
	return nil
}

// containerDownload fetches one GiB through the listener that the stub handed
// over, and on the host.
func (b *bench) containerDownload(e engineUnderTest, image string) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(zeros), ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	address := listener.Addr().String()
	policy, err := b.write(e.name+"-download.json", map[string]any{
		"tier": "container", "container": map[string]any{"runtime": e.name, "image": image}, "write": []string{"{workspace}"},
		"network": map[string]any{"allow": []string{address}},
	})
	if err != nil {
		return err
	}
	// Neither the engine's start nor the process's is part of the transfer.
	script := func(program string) string {
		now := "cut -d' ' -f1 /proc/uptime"
		return "unset no_proxy NO_PROXY; a=$(" + now + "); " + program + "wget -q -O /dev/null http://" + address + "/ && b=$(" + now + ") && echo $a $b | awk '{print $2-$1}'"
	}
	m, err := turns(3, b.transfer("wget", "sh", "-c", script(busybox+" ")), b.transfer(e.name, b.wrap(policy, "sh", "-c", script(""))...))
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{
		"1 GiB out of a container of " + e.name + ", against no sandbox", rate(downloadBytes, m[1]), rate(downloadBytes, m[0]),
		fmt.Sprintf("%.2f × the rate", float64(m[0])/float64(m[1])), "",
	})
	return nil
}
