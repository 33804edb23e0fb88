package seatbelt

import (
	"encoding/json"
	"fmt"
)

// Setup is what the program inside must know to become the command. It goes
// through a pipe, so that nothing of the policy or of the environment is in
// sandbox-exec's own environment or in a list of processes.
type Setup struct {
	Argv  []string
	Dir   string
	Env   []string
	Umask int
	// Files and FileSize are limits for each process; zero for none.
	Files    int64
	FileSize int64
	// Claims are what the boundary must refuse, tried before the command
	// runs.
	Claims Claims
}

// Claims are looked at from inside: each must be refused.
type Claims struct {
	Unreadable string // a file that exists and isn't granted
	Unwritable string // a name that could be made, and isn't granted
	Unreached  string // "127.0.0.1:port", where the supervisor listens
	Unseen     int    // the supervisor itself, whose arguments nobody inside may know
}

// wireSetup carries strings as bytes: arguments and paths need not be UTF-8.
type wireSetup struct {
	Argv, Env       [][]byte
	Dir             []byte
	Umask           int
	Files, FileSize int64
	Claims          [3][]byte
	Unseen          int
}

func (s Setup) encode() ([]byte, error) {
	return json.Marshal(wireSetup{
		Argv: raw(s.Argv), Env: raw(s.Env), Dir: []byte(s.Dir), Umask: s.Umask, Files: s.Files, FileSize: s.FileSize,
		Claims: [3][]byte{[]byte(s.Claims.Unreadable), []byte(s.Claims.Unwritable), []byte(s.Claims.Unreached)},
		Unseen: s.Claims.Unseen,
	})
}

func decodeSetup(b []byte) (Setup, error) {
	var w wireSetup
	if err := json.Unmarshal(b, &w); err != nil {
		return Setup{}, fmt.Errorf("cannot read the setup: %w", err)
	}
	s := Setup{
		Argv: cooked(w.Argv), Env: cooked(w.Env), Dir: string(w.Dir), Umask: w.Umask, Files: w.Files, FileSize: w.FileSize,
		Claims: Claims{Unreadable: string(w.Claims[0]), Unwritable: string(w.Claims[1]), Unreached: string(w.Claims[2]), Unseen: w.Unseen},
	}
	if len(s.Argv) == 0 || s.Dir == "" {
		return Setup{}, fmt.Errorf("cannot use the setup: it names no command or no directory")
	}
	return s, nil
}

func raw(list []string) [][]byte {
	out := make([][]byte, 0, len(list))
	for _, s := range list {
		out = append(out, []byte(s))
	}
	return out
}

func cooked(list [][]byte) []string {
	out := make([]string, 0, len(list))
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}

// outcome is what the program inside says before it becomes the command.
type outcome struct {
	// Ready: everything was tried and holds; the command is next.
	Ready bool `json:"ready,omitempty"`
	// Code is the exit code that goes with Why: 125, 126 or 127.
	Code int    `json:"code,omitempty"`
	Why  string `json:"why,omitempty"`
	// Broken: the boundary let something through.
	Broken bool `json:"broken,omitempty"`
}
