//go:build linux

// Gen merges docker's default profile with the process tier's rules and
// writes one profile for each architecture into a directory.
//
//	go run ./gen DIR
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	moby "github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIR")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(dir string) error {
	for _, arch := range seccomp.Arches() {
		// The stub loads those of the inner program, once the runtime has done.
		inner := seccomp.Rules(arch, seccomp.Inner)
		rules := slices.DeleteFunc(seccomp.Rules(arch, seccomp.Unix), func(r seccomp.Rule) bool { return len(rulesFor(inner, r.Syscall)) > 0 })
		profile, err := merge(moby.DefaultProfile(), append(rules, ownRules()...), arch)
		if err != nil {
			return fmt.Errorf("cannot merge the profile for %s: %w", arch, err)
		}
		text, err := json.Marshal(profile)
		if err != nil {
			return err
		}
		// One rule a line: small enough to embed, and a change can be read.
		text = bytes.ReplaceAll(text, []byte(`},{"names"`), []byte("},\n"+`{"names"`))
		if err := os.WriteFile(filepath.Join(dir, arch+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ownRules are what only a container has to keep from the command: the stub
// stays there as pid 1. A limit that the command lowered for it, which prlimit(2)
// lets processes of one user do, would keep it from calling another supervisor;
// and the signal that an engine stops a container with is the engine's alone.
func ownRules() []seccomp.Rule {
	rules := []seccomp.Rule{{
		Syscall: "prlimit64", Answer: seccomp.EPERM, Args: []seccomp.Arg{{Index: 0, NotIn: []uint32{0}}},
		Why: "the limits of another process, pid 1 among them",
	}}
	for syscall, index := range signalArguments {
		rules = append(rules, seccomp.Rule{
			Syscall: syscall, Answer: seccomp.EPERM, Args: []seccomp.Arg{{Index: index, In: []uint32{wire.StopSignal}}},
			Why: "the engine's word to pid 1",
		})
	}
	return rules
}

// signalArguments says which argument of a call is a signal's number.
var signalArguments = map[string]int{
	"kill": 1, "tkill": 1, "tgkill": 2, "rt_sigqueueinfo": 1, "rt_tgsigqueueinfo": 2, "pidfd_send_signal": 1,
}

var architectures = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// merge is the default for a container without capabilities, less the rules.
func merge(def *moby.Seccomp, rules []seccomp.Rule, arch string) (*specs.LinuxSeccomp, error) {
	if def.DefaultAction != specs.ActErrno {
		return nil, fmt.Errorf("the default is no list of what is allowed: %s", def.DefaultAction)
	}
	allowed, err := resolve(def, arch)
	if err != nil {
		return nil, err
	}
	eperm := uint(seccomp.EPERM)
	out := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &eperm, Architectures: []specs.Arch{architectures[arch]}}
	var plain []string
	for _, name := range sortedNames(allowed) {
		lists, err := intersect(name, allowed[name], rulesFor(rules, name))
		if err != nil {
			return nil, err
		}
		for _, args := range lists {
			if len(args) == 0 {
				plain = append(plain, name)
				continue
			}
			out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args})
		}
	}
	out.Syscalls = slices.Insert(out.Syscalls, 0, specs.LinuxSyscall{Names: plain, Action: specs.ActAllow})
	if missing := missingCalls(rules, plain); len(missing) > 0 {
		enosys := uint(seccomp.ENOSYS)
		out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: missing, Action: specs.ActErrno, ErrnoRet: &enosys})
	}
	return out, nil
}

// resolve is what the default allows where no capability is held: for each
// call the conditions of which one must hold, none for "always".
func resolve(def *moby.Seccomp, arch string) (map[string][][]specs.LinuxSeccompArg, error) {
	allowed := map[string][][]specs.LinuxSeccompArg{}
	for _, s := range def.Syscalls {
		if !applies(s, arch) {
			continue
		}
		switch s.Action {
		case specs.ActErrno:
			continue // refused by the default action as well
		case specs.ActAllow:
		default:
			return nil, fmt.Errorf("%v: action %s", s.Names, s.Action)
		}
		for _, name := range s.Names {
			allowed[name] = append(allowed[name], s.Args)
		}
	}
	return allowed, nil
}

// applies decides the conditions of a group. Kernels that are older than any
// that docker's default asks for can't run the stub.
func applies(s *moby.Syscall, arch string) bool {
	if f := s.Includes; f != nil {
		if len(f.Caps) > 0 || len(f.Arches) > 0 && !slices.Contains(f.Arches, arch) {
			return false
		}
	}
	// All excluded capabilities are absent, so only the architecture counts.
	return s.Excludes == nil || !slices.Contains(s.Excludes.Arches, arch)
}

func sortedNames(m map[string][][]specs.LinuxSeccompArg) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func rulesFor(rules []seccomp.Rule, name string) []seccomp.Rule {
	var out []seccomp.Rule
	for _, r := range rules {
		if r.Syscall == name {
			out = append(out, r)
		}
	}
	return out
}

// missingCalls answer ENOSYS.
func missingCalls(rules []seccomp.Rule, plain []string) []string {
	var out []string
	for _, r := range rules {
		if r.Answer == seccomp.ENOSYS && len(r.Args) == 0 && !slices.Contains(plain, r.Syscall) {
			out = append(out, r.Syscall)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
