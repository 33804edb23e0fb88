package engine_test

import (
	"os"
	"strings"
	"testing"

	"pinfold/container/engine"
)

// podman is a fake one whose storage is a directory here.
func podman(t *testing.T) (fake, string) {
	t.Helper()
	root := t.TempDir()
	return fake{
		answers: map[string]string{"GET /_ping": "OK", "GET /v4.0.0/libpod/info": info(root)},
		status:  map[string]int{}, header: map[string]string{"Api-Version": "1.41", "Libpod-Api-Version": "4.3.1"},
	}, root
}

func info(root string) string {
	return `{"host":{"arch":"amd64","cgroupVersion":"v1","kernel":"6","security":{"rootless":true}},"store":{"graphRoot":"` + root + `"}}`
}

// TestRemembered: podman isn't asked again what it is as long as the same
// process listens, and its word is never enough for "gone".
func TestRemembered(t *testing.T) {
	t.Parallel()
	f, root := podman(t)
	endpoint, memory := f.serve(t), t.TempDir()
	identity := func(memory string) string {
		t.Helper()
		e, err := engine.Open(t.Context(), engine.Choice{Runtime: "podman", Memory: memory, Env: env(map[string]string{"CONTAINER_HOST": endpoint})})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		i, err := e.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !i.Rootless || i.CanLimit.Memory || i.Cgroup != 1 || i.Version != "4.3.1" {
			t.Errorf("%+v", i)
		}
		return i.Identity
	}
	first := identity(memory)
	if !strings.HasPrefix(first, "podman:"+root+":") {
		t.Errorf("it is %q", first)
	}
	f.answers["GET /v4.0.0/libpod/info"] = info(t.TempDir())
	if again := identity(memory); again != first {
		t.Errorf("it was asked again: %q", again)
	}
	if other := identity(""); other == first {
		t.Error("without a memory it wasn't asked")
	}
	f.header["Libpod-Api-Version"] = "4.3.1" // the same
	files, err := os.ReadDir(memory)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	// What another process said counts for nothing.
	name := memory + "/" + files[0].Name()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(text), `"listener":"`, `"listener":"x`, 1)
	if err := os.WriteFile(name, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := identity(memory); other == first {
		t.Error("another process's word was taken")
	}
}
