// The in-tree code under test, as a program: JSON Lines in, JSON Lines out, one answer a line.
//
// It is what the Python side is compared with. Each command lives in a file of its own and registers itself.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// A command answers one line of input.
type command func(line []byte) any

var commands = map[string]command{}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: differential cel|allocator < problems.jsonl > answers.jsonl")
		os.Exit(2)
	}
	answer := commands[os.Args[1]]
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(answer(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		// Whoever waits for an answer gets it at once; a file is written in blocks.
		if in.Buffered() == 0 || err != nil {
			out.Flush()
		}
		if err != nil {
			return
		}
	}
}
