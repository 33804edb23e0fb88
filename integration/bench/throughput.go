package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// downloadBytes is a transfer; a slow peer's is smaller, so that it ends.
const (
	downloadBytes = 1 << 30
	peerBytes     = 1 << 27
)

// downloads is how often each transfer is made: on a shared machine one of the
// same takes half as long as another.
const downloads = 15

// way is one way to a server outside.
type way struct {
	name, mode string
	options    string // of curl, in the words of a shell
	srt        string // the same with srt; "" for a way that it hasn't
}

// The target may be an address that clients leave to their NO_PROXY.
var ways = []way{
	{"through the proxy, plain HTTP", "proxy", `--noproxy ""`, `--noproxy ""`},
	{"through the proxy, CONNECT", "proxy", `--noproxy "" -p`, `--noproxy "" -p`},
	{"through the proxy, SOCKS5", "proxy", `--noproxy "" -x "socks5h://$PINFOLD_PROXY"`, `--noproxy "" -x "$FTP_PROXY"`},
	{"without a proxy", "transparent", "", ""},
}

// throughput fetches one GiB by every way, and with no sandbox in turn with
// them, by the same client from the same server.
func (b *bench) throughput() error {
	host, ok := ownAddress()
	if !ok {
		b.rows = append(b.rows, row{"1 GiB through the proxy", "", "this machine has no address but its loopback", "", ""})
		return nil
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(zeros), ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	at := listener.Addr().String()
	sides := []side{b.transfer("curl", "sh", "-c", curl(`--noproxy "*"`, at, downloadBytes))}
	policies := map[string]string{}
	for _, w := range ways {
		if policies[w.mode], err = b.write("throughput-"+w.mode+".json", map[string]any{"network": map[string]any{"allow": []string{at}, "mode": w.mode}}); err != nil {
			return err
		}
		sides = append(sides, b.transfer(w.name, b.wrap(policies[w.mode], "sh", "-c", curl(w.options, at, downloadBytes))...))
	}
	m, err := turns(downloads, sides...)
	if err != nil {
		return err
	}
	for i, w := range ways {
		b.rows = append(b.rows, row{
			"1 GiB " + w.name + ", against no sandbox", rate(downloadBytes, m[i+1]), rate(downloadBytes, m[0]),
			fmt.Sprintf("%.2f × the rate", float64(m[0])/float64(m[i+1])), "at least 0.7 ×",
		})
	}
	return errors.Join(b.supervisorTime(policies["proxy"], at), b.throughSRT(policies, host, at))
}

// curl is a transfer whose time curl tells, and which ends.
func curl(options, at string, size int) string {
	return fmt.Sprintf(`exec curl -sSf --max-time 120 -o /dev/null -w "%s" %s http://%s/%d`, curlTimes, options, at, size)
}

// throughSRT does the same with srt, where it is there, in turn with pinfold.
func (b *bench) throughSRT(policies map[string]string, host, at string) error {
	size := fmt.Sprintf("%d MiB ", peerBytes>>20)
	if b.srt == "" {
		b.rows = append(b.rows, row{size + "through the proxy, against srt", "", "not installed", "", ""})
		return nil
	}
	settings, err := b.write("srt-throughput.json", map[string]any{
		"network":    map[string]any{"allowedDomains": []string{host}, "deniedDomains": []string{}},
		"filesystem": map[string]any{"denyRead": []string{}, "allowWrite": []string{b.ws}, "denyWrite": []string{}},
	})
	if err != nil {
		return err
	}
	for _, w := range ways {
		if w.srt == "" {
			continue
		}
		m, err := turns(3,
			b.transfer("pinfold", b.wrap(policies[w.mode], "sh", "-c", curl(w.options, at, peerBytes))...),
			b.transfer("srt", b.srt, "--settings", settings, "-c", curl(w.srt, at, peerBytes)))
		if err != nil {
			return err
		}
		b.rows = append(b.rows, row{
			size + w.name + ", against srt", rate(peerBytes, m[0]), rate(peerBytes, m[1]),
			fmt.Sprintf("%.1f × the rate", float64(m[1])/float64(m[0])), "",
		})
	}
	return nil
}

// supervisorTime is the processor time that a transfer costs: what a busy
// machine changes least.
func (b *bench) supervisorTime(policy, at string) error {
	script := fmt.Sprintf("for i in 1 2 3; do (%s); echo; read x; done", curl(ways[1].options, at, downloadBytes))
	argv := b.wrap(policy, "sh", "-c", script)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.ws
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	least, err := leastTime(cmd.Process.Pid, in, bufio.NewReader(out))
	if err := errors.Join(err, in.Close(), cmd.Wait()); err != nil {
		return err
	}
	b.rows = append(b.rows, row{"processor time of the supervisor for 1 GiB through the proxy, CONNECT", ms(least), "", "", ""})
	return nil
}

// leastTime is that of the cheapest of the transfers after the first, which
// the launch is a part of.
func leastTime(pid int, in io.Writer, out *bufio.Reader) (least time.Duration, err error) {
	var before time.Duration
	for i := range 3 {
		if _, err := out.ReadString('\n'); err != nil {
			return 0, err
		}
		spent, err := processorTime(pid)
		if err != nil {
			return 0, err
		}
		if one := spent - before; i == 1 || i > 1 && one < least {
			least = one
		}
		before = spent
		if _, err := io.WriteString(in, "\n"); err != nil {
			return 0, err
		}
	}
	return least, nil
}

// processorTime reads a process's clock (clock_getcpuclockid(3)), which unlike
// /proc counts less than a tick too.
func processorTime(pid int) (time.Duration, error) {
	var spent unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &spent); err != nil {
		return 0, fmt.Errorf("cannot read the clock of process %d: %w", pid, err)
	}
	return time.Duration(spent.Nano()), nil
}

func rate(bytes int, d time.Duration) string {
	return fmt.Sprintf("%.0f MB/s", float64(bytes)/d.Seconds()/1e6)
}

// zeros sends as many bytes as the path asks for.
func zeros(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.Atoi(filepath.Base(r.URL.Path))
	if err != nil {
		size = downloadBytes
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	block := make([]byte, 1<<20)
	for range size / len(block) {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}
