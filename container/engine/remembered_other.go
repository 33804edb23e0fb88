//go:build !linux

package engine

import (
	"context"

	"pinfold/container"
)

func (e *Engine) recall(context.Context) (container.Info, bool) { return container.Info{}, false }

func (e *Engine) remember(context.Context, container.Info) {}
