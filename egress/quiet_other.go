//go:build !linux

package egress

import "time"

// Quiet can't be told on this system.
func (s *Server) Quiet() (least time.Duration, ok bool) { return 0, false }
