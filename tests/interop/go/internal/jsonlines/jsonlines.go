// SPDX-License-Identifier: Apache-2.0

// Package jsonlines writes one JSON object per line, from any goroutine.
package jsonlines

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"sync"
)

// Writer serialises objects to lines.
type Writer struct {
	lock   sync.Mutex
	buffer *bufio.Writer
	file   *os.File
	eager  bool
}

// Stdout returns a writer to stdout that flushes after each line.
func Stdout() *Writer {
	return &Writer{buffer: bufio.NewWriter(os.Stdout), eager: true}
}

// Create makes or empties the named file. Lines in it are buffered until Flush or Close.
func Create(path string) (*Writer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Writer{buffer: bufio.NewWriterSize(file, 1<<16), file: file}, nil
}

// Write one object.
func (w *Writer) Write(object any) {
	line, err := json.Marshal(object)
	if err != nil {
		panic(err) // callers pass plain structs and maps only
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.buffer.Write(append(line, '\n'))
	if w.eager {
		w.buffer.Flush()
	}
}

// Flush writes buffered lines to the file.
func (w *Writer) Flush() error {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.buffer.Flush()
}

// Close flushes and closes.
func (w *Writer) Close() error {
	if err := w.Flush(); err != nil || w.file == nil {
		return err
	}
	return w.file.Close()
}

// Read calls each with every line of a stream, until it ends or each returns false.
func Read(stream io.Reader, each func(line []byte) bool) error {
	reader := bufio.NewReaderSize(stream, 1<<16)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 && !each(line) {
			return nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
