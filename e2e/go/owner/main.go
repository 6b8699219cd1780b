// SPDX-License-Identifier: Apache-2.0

// A loader on cilium/ebpf: obeys the lines of ../../owner/attach.c (attach, replace, detach) for one interface.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

type owner struct {
	ifindex    int
	collection *ebpf.Collection
	link       link.Link
}

// load opens an object whose one program is its first.
func load(path string) (*ebpf.Collection, *ebpf.Program, error) {
	collection, err := ebpf.LoadCollection(path)
	if err != nil {
		return nil, nil, err
	}
	for _, program := range collection.Programs {
		return collection, program, nil
	}
	collection.Close()
	return nil, nil, fmt.Errorf("%s holds no program", path)
}

func (o *owner) attach(path string) error {
	collection, program, err := load(path)
	if err != nil {
		return err
	}
	attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: o.ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		collection.Close()
		return err
	}
	o.collection, o.link = collection, attached
	return nil
}

func (o *owner) replace(path string) error {
	collection, program, err := load(path)
	if err != nil {
		return err
	}
	if err := o.link.Update(program); err != nil {
		collection.Close()
		return err
	}
	o.collection.Close()
	o.collection = collection
	return nil
}

func (o *owner) detach() error {
	err := o.link.Close()
	o.collection.Close()
	o.link, o.collection = nil, nil
	return err
}

func (o *owner) obey(words []string) error {
	switch {
	case len(words) == 2 && words[0] == "attach":
		return o.attach(words[1])
	case len(words) == 2 && words[0] == "replace" && o.link != nil:
		return o.replace(words[1])
	case len(words) == 1 && words[0] == "detach" && o.link != nil:
		return o.detach()
	}
	return fmt.Errorf("cannot %q now", words)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "owner INTERFACE")
		os.Exit(2)
	}
	device, err := net.InterfaceByName(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	o := owner{ifindex: device.Index}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := o.obey(strings.Fields(lines.Text())); err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
