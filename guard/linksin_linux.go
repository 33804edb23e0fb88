package guard

import "golang.org/x/sys/unix"

func (*hostFS) linksIn(dir string) ([]string, error) {
	f, err := openStraight(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return linksOf(f)
}
