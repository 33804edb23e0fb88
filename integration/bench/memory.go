package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

// tunnels are held open while memory is read.
const tunnels = 100

// memory reads the supervisor's resident memory while a command waits.
func (b *bench) memory() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go hold(listener)
	at := listener.Addr().String()
	policy, err := b.write("network.json", map[string]any{
		"write": []string{"{workspace}"}, "network": map[string]any{"allow": []string{at}, "mode": "proxy"},
	})
	if err != nil {
		return err
	}
	self, err := b.self()
	if err != nil {
		return err
	}
	waits := []string{"sh", "-c", "echo ready; read x"}
	var kb [3]int
	for i, argv := range [][]string{b.wrap(b.policy, waits...), b.wrap(policy, waits...), b.wrap(policy, self, "probe", "tunnels", at, strconv.Itoa(tunnels))} {
		if kb[i], err = b.resident(argv); err != nil {
			return err
		}
	}
	for i, r := range []struct{ name, aim string }{{"no host allowed", "under 20 MiB"}, {"with its proxy", "under 20 MiB"}, {fmt.Sprintf("with %d tunnels", tunnels), ""}} {
		b.rows = append(b.rows, row{"resident memory of the supervisor, " + r.name, fmt.Sprintf("%.1f MiB", float64(kb[i])/1024), "", "", r.aim})
	}
	b.rows = append(b.rows, row{"of which one tunnel", fmt.Sprintf("%.0f KiB", float64(kb[2]-kb[1])/tunnels), "", "", "under 64 KiB"})
	return nil
}

// hold accepts connections and lets them be.
func hold(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
	}
}

// resident is the memory of what argv starts, in KiB, once its command has
// said that it is ready.
func (b *bench) resident(argv []string) (int, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.ws
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	status, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err := errors.Join(err, readErr, in.Close()); err != nil {
		return 0, err
	}
	_ = cmd.Wait() // read fails at the end of its input
	rss := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if rss == nil {
		return 0, errors.New("cannot read the supervisor's memory")
	}
	return strconv.Atoi(string(rss[1]))
}

// holdTunnels opens tunnels through the proxy, until its input ends.
func holdTunnels(target string, n int) error {
	for range n {
		c, err := net.Dial("tcp", os.Getenv("PINFOLD_PROXY"))
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
