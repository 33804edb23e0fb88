//go:build !linux

package main

import "pinfold/policy"

// becomeUser needs Linux: elsewhere sudo does the same.
func (p *program) becomeUser(name string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "user_unusable", Subject: name,
		Why: "cannot become another user: --user needs Linux",
		Fix: "start pinfold through sudo -u instead",
	}
}
