package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// probe is what this program does inside: it measures, and prints nanoseconds.
// Programs that are started for it would cost more than what is measured.
func probe(args []string) error {
	if len(args) != 3 {
		return errors.New("probe KIND TARGET N")
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if args[0] == "tunnels" {
		return holdTunnels(args[1], n)
	}
	measure, ok := map[string]func(string, int) (time.Duration, error){
		"connect": medianConnect, "unix": unixConnects, "one-by-one": oneByOne, "at-once": atOnce,
	}[args[0]]
	if !ok {
		return fmt.Errorf("there is no probe %q", args[0])
	}
	took, err := measure(args[1], n)
	if err == nil {
		fmt.Println(took.Nanoseconds())
	}
	return err
}

// medianConnect is one connect(2) among n.
func medianConnect(target string, n int) (time.Duration, error) {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		c, err := net.Dial("tcp", target)
		took[i] = time.Since(began)
		if err != nil {
			return 0, err
		}
		c.Close()
	}
	slices.Sort(took)
	return took[n/2], nil
}

// unixConnects is all of n.
func unixConnects(target string, n int) (time.Duration, error) {
	began := time.Now()
	for range n {
		c, err := net.Dial("unix", target)
		if err != nil {
			return 0, err
		}
		c.Close()
	}
	return time.Since(began), nil
}

// get makes one request on a connection of its own, through the proxy of the
// environment where there is one.
func get(client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return err
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
}

func oneByOne(url string, n int) (time.Duration, error) {
	client := newClient()
	began := time.Now()
	for range n {
		if err := get(client, url); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func atOnce(url string, n int) (time.Duration, error) {
	client := newClient()
	failures := make([]error, n)
	var wait sync.WaitGroup
	began := time.Now()
	for i := range n {
		wait.Go(func() { failures[i] = get(client, url) })
	}
	wait.Wait()
	return time.Since(began), errors.Join(failures...)
}
