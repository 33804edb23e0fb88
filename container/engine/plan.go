package engine

import (
	"context"
	"os"
	"runtime"

	"pinfold/container"
	"pinfold/container/seccomp"
	"pinfold/guard"
)

// Plan asks the engine what it is and what the image is, and translates. It
// makes nothing.
func (e *Engine) Plan(ctx context.Context, g *guard.Grant, o container.Options) (*container.Launch, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkHere(info); err != nil {
		return nil, err
	}
	img, err := e.Resolve(ctx, o.Image)
	if err != nil {
		return nil, err
	}
	return container.Translate(g, info, img, o, container.Host{Exists: exists, Listening: Listening, Seccomp: seccomp.Profile})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkHere refuses an engine behind a socket of this machine whose
// containers run on another kernel, in a virtual machine say.
func checkHere(info container.Info) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	if info.Arch != runtime.GOARCH || info.Kernel != release {
		return remoteRefusal(info.Provider, info.Endpoint)
	}
	return nil
}
