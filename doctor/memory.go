package doctor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// memory is a Prober that asks the kernel once in a boot which system calls it
// has, which actions of seccomp(2), and which Landlock. What can change while the
// machine runs (a switch, a profile, a mount, what is installed or used up) is
// asked each time, for what was remembered would send people after what they
// have just put right; and so is what couldn't be told.
//
// Answers alone are kept and no words: a file can't say what is to be typed. One
// that is odd in any way is none. It isn't there for speed: of the 13 ms that all
// rows of a refusal take, these answers are 0.06, and recalling them is 0.2.
type memory struct {
	Prober

	host    *Host
	answers map[string]int // 0 is a no; of Landlock the ABI. nil: not recalled yet
	learned bool
}

const (
	memoryName     = "kernel-answers"
	maxMemory      = 4096 // ten short lines
	landlockAnswer = "landlock"
)

// remembering has the kernel's answers remembered until done is called. Without
// recall each is asked for anew, and takes the place of what was remembered.
func (h *Host) remembering(recall bool) (done func()) {
	if h.Probe == nil || h.State == "" {
		return func() {}
	}
	m := &memory{Prober: h.Probe, host: h}
	if !recall {
		m.answers = map[string]int{}
	}
	h.Probe = m
	return func() {
		h.Probe = m.Prober
		if m.learned {
			m.save()
		}
	}
}

// Syscall asks once. Without a filter a call that isn't there answers ENOSYS,
// and an action EOPNOTSUPP; any other no is somebody's, not the kernel's.
func (m *memory) Syscall(name string) error {
	n, known := m.recalled()[name]
	switch {
	case known && n == 0:
		return ErrNotThere
	case known:
		return nil
	}
	err := m.Prober.Syscall(name)
	switch {
	case err == nil:
		m.learn(name, 1)
	case errors.Is(err, ErrNotThere) && (errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP)):
		m.learn(name, 0)
	}
	return err
}

// LandlockABI asks once.
func (m *memory) LandlockABI() (int, error) {
	if abi, known := m.recalled()[landlockAnswer]; known {
		return abi, nil
	}
	abi, err := m.Prober.LandlockABI()
	if err == nil {
		m.learn(landlockAnswer, abi)
	}
	return abi, err
}

func (m *memory) learn(name string, n int) {
	if rememberable(name) {
		m.answers[name], m.learned = n, true
	}
}

// rememberable: the calls that make namespaces are asked for only where a
// filter is in force.
func rememberable(name string) bool {
	is := func(prefix string) func(asked) bool { return func(a asked) bool { return prefix+a.name == name } }
	return name == landlockAnswer || slices.ContainsFunc(syscalls, is("")) || slices.ContainsFunc(actions, is("seccomp_"))
}

// recalled reads the answers when the first is wanted: most rows that explain a
// launch come before.
func (m *memory) recalled() map[string]int {
	if m.answers == nil {
		m.answers = m.load()
	}
	if m.answers == nil {
		m.answers = map[string]int{}
	}
	return m.answers
}

// occasion is what the answers hold for: this boot, this program, this user in
// these namespaces. "" is for none but this process: a seccomp filter refuses
// what the kernel has, and a tracer can answer in the kernel's place.
func (h *Host) occasion() string {
	boot, err := h.read("proc/sys/kernel/random/boot_id")
	status, serr := h.read("proc/self/status")
	user, uerr := fs.ReadLink(h.Root, "proc/self/ns/user")
	mount, merr := fs.ReadLink(h.Root, "proc/self/ns/mnt")
	alone := strings.Contains(status+"\n", "\nSeccomp:\t0\n") && strings.Contains(status, "\nTracerPid:\t0\n")
	if errors.Join(err, serr, uerr, merr) != nil || boot == "" || !alone {
		return ""
	}
	return fmt.Sprintf("pinfold %q boot %q uid %d %q %q\n", h.Version, boot, h.UID, user, mount)
}

// place is the occasion, and the state directory where it is this user's alone
// to write; nil where either isn't so.
func (h *Host) place() (string, *os.Root) {
	occasion := h.occasion()
	dir, err := os.OpenRoot(h.State)
	if err != nil {
		return "", nil
	}
	info, err := dir.Stat(".")
	if occasion == "" || err != nil || !ownedBy(info, h.UID) || info.Mode().Perm()&0o022 != 0 {
		_ = dir.Close()
		return "", nil
	}
	return occasion, dir
}

func ownedBy(info fs.FileInfo, uid int) bool {
	st, known := info.Sys().(*syscall.Stat_t)
	return known && int(st.Uid) == uid
}

func (m *memory) load() map[string]int {
	occasion, dir := m.host.place()
	if dir == nil {
		return nil
	}
	defer dir.Close()
	f, err := dir.OpenFile(memoryName, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO doesn't hold it up
	if err != nil {
		return nil
	}
	defer f.Close()
	// A mode of 0600 and nothing else is a regular file's.
	info, err := f.Stat()
	if err != nil || info.Mode() != 0o600 || !ownedBy(info, m.host.UID) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMemory))
	if err != nil {
		return nil
	}
	return parseAnswers(string(text), occasion)
}

// parseAnswers takes exactly what formatAnswers writes.
func parseAnswers(text, occasion string) map[string]int {
	answers := map[string]int{}
	for line := range strings.Lines(strings.TrimPrefix(text, occasion)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil || !rememberable(name) || n > 1 && name != landlockAnswer {
			return nil
		}
		answers[name] = int(n)
	}
	if formatAnswers(answers, occasion) != text {
		return nil
	}
	return answers
}

func formatAnswers(answers map[string]int, occasion string) string {
	var b strings.Builder
	b.WriteString(occasion)
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		fmt.Fprintf(&b, "%s %d\n", name, answers[name])
	}
	return b.String()
}

// save writes the answers whole and renames them into place: of several
// writers one is the last. Where it can't, the next one asks again.
func (m *memory) save() {
	occasion, dir := m.host.place()
	if dir == nil {
		return
	}
	defer dir.Close()
	temporary := memoryName + "." + rand.Text()
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.WriteString(formatAnswers(m.answers, occasion))
	err = errors.Join(err, f.Chmod(0o600), f.Close()) // whatever the umask was
	if err != nil || dir.Rename(temporary, memoryName) != nil {
		_ = dir.Remove(temporary)
	}
}
