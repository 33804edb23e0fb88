package guard

import "golang.org/x/sys/unix"

func (*hostFS) linksIn(dir string) (links, dirs []string, err error) {
	f, err := openStraight(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return linksOf(f)
}
