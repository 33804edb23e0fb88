package engine

import "time"

// What the engines' API is sent and answers, less what nobody here reads.
// Names are the API's.

type createRequest struct {
	Image           string
	Entrypoint      []string
	Cmd             []string
	Env             []string
	WorkingDir      string
	User            string
	Hostname        string
	Labels          map[string]string
	StopSignal      string
	Healthcheck     *healthcheck
	NetworkDisabled bool
	AttachStdin     bool
	AttachStdout    bool
	AttachStderr    bool
	OpenStdin       bool
	Tty             bool
	HostConfig      hostConfig
}

type healthcheck struct{ Test []string }

type hostConfig struct {
	NetworkMode    string
	IpcMode        string
	PidMode        string
	UTSMode        string
	CgroupnsMode   string
	UsernsMode     string
	CapDrop        []string
	CapAdd         []string
	SecurityOpt    []string
	Privileged     bool
	ReadonlyRootfs bool
	MaskedPaths    []string
	ReadonlyPaths  []string
	Mounts         []apiMount
	Tmpfs          map[string]string
	ShmSize        int64
	NanoCpus       int64
	Memory         int64
	MemorySwap     int64
	// MemorySwappiness -1 leaves it to the engine.
	PidsLimit     *int64
	Ulimits       []ulimit
	LogConfig     logConfig
	RestartPolicy restartPolicy
	AutoRemove    bool
	OomScoreAdj   int
}

type apiMount struct {
	Type        string
	Source      string `json:",omitempty"`
	Target      string
	ReadOnly    bool
	BindOptions *bindOptions `json:",omitempty"`
}

type bindOptions struct{ Propagation string }

type ulimit struct {
	Name       string
	Soft, Hard int64
}

type logConfig struct {
	Type   string
	Config map[string]string
}

type restartPolicy struct{ Name string }

type createResponse struct {
	ID       string `json:"Id"`
	Warnings []string
}

type inspectResponse struct {
	ID      string `json:"Id"`
	Name    string
	Image   string // the ID
	Created time.Time
	State   struct {
		Status     string
		Running    bool
		Paused     bool
		Restarting bool
		OOMKilled  bool
		Dead       bool
		Pid        int
		ExitCode   int
		Error      string
		StartedAt  string
		FinishedAt string
	}
	Config struct {
		Image  string
		Labels map[string]string
	}
	Mounts []struct {
		Type, Source, Destination string
		RW                        bool
	}
}

type listEntry struct {
	ID     string `json:"Id"`
	Labels map[string]string
}

type infoResponse struct {
	ID                 string
	ServerVersion      string
	KernelVersion      string
	Architecture       string
	OSType             string
	CgroupVersion      string
	CgroupDriver       string
	DefaultRuntime     string
	SecurityOptions    []string
	LiveRestoreEnabled bool
	MemoryLimit        bool
	SwapLimit          bool
	CPUCfsQuota        bool `json:"CpuCfsQuota"`
	PidsLimit          bool
	Warnings           []string
}

// libpodInfo is podman's own.
type libpodInfo struct {
	Host struct {
		Arch              string   `json:"arch"`
		CgroupVersion     string   `json:"cgroupVersion"`
		CgroupControllers []string `json:"cgroupControllers"`
		Kernel            string   `json:"kernel"`
		OCIRuntime        struct {
			Name string `json:"name"`
		} `json:"ociRuntime"`
		Security struct {
			AppArmor bool `json:"apparmorEnabled"`
			SELinux  bool `json:"selinuxEnabled"`
			Rootless bool `json:"rootless"`
		} `json:"security"`
	} `json:"host"`
	Store struct {
		GraphRoot string `json:"graphRoot"`
	} `json:"store"`
	Version struct {
		Version string `json:"Version"`
	} `json:"version"`
}

type imageInspect struct {
	ID           string `json:"Id"`
	RepoTags     []string
	RepoDigests  []string
	Architecture string
	Os           string
	Created      string
	Size         int64
	Config       struct {
		Entrypoint []string
		Cmd        []string
		Env        []string
		User       string
		WorkingDir string
		Volumes    map[string]struct{}
		Labels     map[string]string
	}
}
