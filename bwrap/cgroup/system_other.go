//go:build !linux

package cgroup

import "errors"

// system has no cgroups.
type system struct{}

var errNone = errors.New("there are no cgroups on this system")

func (system) ReadFile(string) ([]byte, error) { return nil, errNone }
func (system) WriteFile(string, string) error  { return errNone }
func (system) Mkdir(string) error              { return errNone }
func (system) Remove(string) error             { return errNone }
func (system) List(string) []string            { return nil }
func (system) Writable(string) bool            { return false }
