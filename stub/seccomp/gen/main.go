//go:build libseccomp

// Gen lowers the table of package seccomp to BPF with libseccomp and writes
// the programs and their text into a directory.
//
//	go run -tags libseccomp ./gen DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"

	libseccomp "github.com/seccomp/libseccomp-golang"

	"pinfold/stub/seccomp"
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
		for _, mode := range seccomp.All() {
			if err := write(dir, arch, mode); err != nil {
				return fmt.Errorf("cannot generate %s, mode %s: %w", arch, mode, err)
			}
		}
	}
	major, minor, micro := libseccomp.GetLibraryVersion()
	version := fmt.Sprintf("libseccomp %d.%d.%d\n", major, minor, micro)
	return os.WriteFile(filepath.Join(dir, "VERSION"), []byte(version), 0o644)
}

func write(dir, arch string, mode seccomp.Mode) error {
	program, err := build(arch, mode)
	if err != nil {
		return err
	}
	text, err := seccomp.Table(arch, mode, program)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, seccomp.FileName(arch, mode))
	if err := os.WriteFile(path+".bpf", program, 0o644); err != nil {
		return err
	}
	return os.WriteFile(path+".txt", []byte(text), 0o644)
}

// build is the head, which libseccomp can't express, and libseccomp's program
// after it. All jumps are relative, so they simply follow each other.
func build(arch string, mode seccomp.Mode) ([]byte, error) {
	f, err := newFilter(arch)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	var unknown []seccomp.Rule
	for _, r := range seccomp.Rules(arch, mode) {
		known, err := add(f, arch, r)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r, err)
		}
		if !known {
			unknown = append(unknown, r)
		}
	}
	first, err := head(arch, unknown)
	if err != nil {
		return nil, err
	}
	rest, err := export(f)
	if err != nil {
		return nil, err
	}
	return append(first, rest...), nil
}

// export is libseccomp's program. Its export to memory exists from 2.6 only.
func export(f *libseccomp.ScmpFilter) ([]byte, error) {
	file, err := os.CreateTemp("", "pinfold-gen-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := f.ExportBPF(file); err != nil {
		return nil, err
	}
	return os.ReadFile(file.Name())
}

// newFilter is an empty filter for one architecture, whichever this machine
// is.
func newFilter(arch string) (*libseccomp.ScmpFilter, error) {
	f, err := libseccomp.NewFilter(libseccomp.ActAllow)
	if err != nil {
		return nil, err
	}
	want, err := libseccomp.GetArchFromString(arch)
	if err != nil {
		return nil, err
	}
	native, err := libseccomp.GetNativeArch()
	if err != nil {
		return nil, err
	}
	if want != native {
		if err := f.AddArch(want); err != nil {
			return nil, err
		}
		if err := f.RemoveArch(native); err != nil {
			return nil, err
		}
	}
	return f, f.SetBadArchAction(libseccomp.ActKillProcess)
}

// add adds a rule. It reports false for a call that is newer than libseccomp.
// Numbers are this machine's: libseccomp translates them by name.
func add(f *libseccomp.ScmpFilter, arch string, r seccomp.Rule) (known bool, err error) {
	if err := checkNumber(arch, r.Syscall); err != nil {
		return false, err
	}
	call, err := libseccomp.GetSyscallFromName(r.Syscall)
	if err != nil {
		return false, nil //nolint:nilerr // the library has no other word for "unknown"
	}
	action := libseccomp.ActErrno.SetReturnCode(int16(r.Answer))
	if r.HandOver {
		action = libseccomp.ActNotify
	}
	if len(r.Args) == 0 {
		return true, f.AddRuleExact(call, action)
	}
	for _, blocks := range r.Conditions() {
		if err := addConditional(f, call, action, r, blocks); err != nil {
			return true, err
		}
	}
	return true, nil
}

func addConditional(f *libseccomp.ScmpFilter, call libseccomp.ScmpSyscall, action libseccomp.ScmpAction, r seccomp.Rule, blocks []seccomp.Block) error {
	var conditions []libseccomp.ScmpCondition
	for i, b := range blocks {
		c, err := libseccomp.MakeCondition(uint(r.Args[i].Index), libseccomp.CompareMaskedEqual, uint64(b.Mask), uint64(b.Value))
		if err != nil {
			return err
		}
		conditions = append(conditions, c)
	}
	return f.AddRuleConditionalExact(call, action, conditions)
}

// checkNumber compares the table's number with libseccomp's, where it has one.
func checkNumber(arch, name string) error {
	ours, ok := seccomp.Number(arch, name)
	if !ok {
		return fmt.Errorf("%s has no number on %s", name, arch)
	}
	token, err := libseccomp.GetArchFromString(arch)
	if err != nil {
		return err
	}
	theirs, err := libseccomp.GetSyscallFromNameByArch(name, token)
	if err == nil && uint32(theirs) != ours {
		return fmt.Errorf("%s is %d here, %d in libseccomp", name, ours, theirs)
	}
	return nil
}
