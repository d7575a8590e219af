package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Names of the images that every node has. A pod that uses one sets imagePullPolicy: IfNotPresent,
// because their tag makes Always the default, and there is no registry to pull from.
const (
	BusyboxImage = "localhost/hpp-e2e/busybox:latest"
	PauseImage   = "localhost/hpp-e2e/pause:latest"
)

// Image is a container image of one layer.
type Image struct {
	// Name has a registry and a tag: localhost/hostpath-provisioner:test.
	Name string
	// Files are the content. Parent directories are created as needed.
	Files []ImageFile
	// Entrypoint, Command and Environment are those of the image's configuration.
	Entrypoint  []string
	Command     []string
	Environment []string
}

// ImageFile is one file of an image. A mode with fs.ModeDir is a directory; a Link makes it a
// symbolic link.
type ImageFile struct {
	Path string // absolute
	Mode fs.FileMode
	Data []byte
	Link string
}

// WriteArchive writes the image as a docker-archive, which containerd, podman and docker can load.
// The same image always has the same bytes.
func (m Image) WriteArchive(w io.Writer) error {
	layer, err := m.layer()
	if err != nil {
		return fmt.Errorf("image %s: %w", m.Name, err)
	}
	layerID := fmt.Sprintf("%x", sha256.Sum256(layer))
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": m.Entrypoint, "Cmd": m.Command, "Env": m.Environment},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerID}},
	})
	if err != nil {
		return err
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{m.Name}, "Layers": []string{layerID + ".tar"},
	}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, f := range []ImageFile{
		{Path: configName, Mode: 0o644, Data: config},
		{Path: layerID + ".tar", Mode: 0o644, Data: layer},
		{Path: "manifest.json", Mode: 0o644, Data: manifest},
	} {
		if err := f.write(archive); err != nil {
			return fmt.Errorf("image %s: %w", m.Name, err)
		}
	}
	return archive.Close()
}

// layer returns the tar of all files, each after its parent directories.
func (m Image) layer() ([]byte, error) {
	var buf bytes.Buffer
	layer := tar.NewWriter(&buf)
	written := map[string]bool{"/": true}
	for _, f := range m.Files {
		var parents []string
		for dir := path.Dir(path.Clean("/" + f.Path)); !written[dir]; dir = path.Dir(dir) {
			parents = append(parents, dir)
			written[dir] = true
		}
		for _, dir := range slices.Backward(parents) {
			if err := (ImageFile{Path: dir, Mode: fs.ModeDir | 0o755}).write(layer); err != nil {
				return nil, err
			}
		}
		written[path.Clean("/"+f.Path)] = true
		if err := f.write(layer); err != nil {
			return nil, err
		}
	}
	err := layer.Close()
	return buf.Bytes(), err
}

func (f ImageFile) write(w *tar.Writer) error {
	h := &tar.Header{Name: strings.TrimPrefix(path.Clean(f.Path), "/"), Mode: int64(f.Mode.Perm()), Typeflag: tar.TypeReg}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
	default:
		h.Size = int64(len(f.Data))
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.Data)
	return err
}

// BinaryImage returns an image that contains one static program and starts it.
func BinaryImage(name, program string) (Image, error) {
	data, err := readStatic(program)
	if err != nil {
		return Image{}, fmt.Errorf("image %s: %w", name, err)
	}
	target := "/" + filepath.Base(program)
	return Image{
		Name:       name,
		Files:      []ImageFile{{Path: target, Mode: 0o755, Data: data}},
		Entrypoint: []string{target},
	}, nil
}

// readStatic reads a program. It returns an error if the program is dynamic, because the image has
// no loader.
func readStatic(program string) ([]byte, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("%s: not a program: %w", program, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s: is linked dynamically; build it with CGO_ENABLED=0, or install the static package",
				program)
		}
	}
	return os.ReadFile(program)
}

// busyboxImage returns an image with every applet of the machine's static busybox under its own
// name.
func busyboxImage(program string) (Image, error) {
	data, err := readStatic(program)
	if err != nil {
		return Image{}, fmt.Errorf("image %s: %w; run e2e/packages.sh busybox-static", BusyboxImage, err)
	}
	applets, err := exec.Command(program, "--list").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list the applets of %s: %w", program, err)
	}
	m := Image{
		Name: BusyboxImage,
		Files: []ImageFile{
			{Path: "/bin/busybox", Mode: 0o755, Data: data},
			{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
			{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nnobody:x:65534:\n")},
			{Path: "/root", Mode: fs.ModeDir | 0o700},
			{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		},
		Command:     []string{"sh"},
		Environment: []string{"PATH=/bin"},
	}
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" {
			m.Files = append(m.Files, ImageFile{Path: "/bin/" + applet, Mode: 0o777, Link: "busybox"})
		}
	}
	return m, nil
}

// WriteImage writes the image's archive to a file. The file appears only when it is complete.
func WriteImage(m Image, file string) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return fmt.Errorf("image %s: %w", m.Name, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails, rightly, once it has been renamed
	err = m.WriteArchive(tmp)
	if closing := tmp.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(tmp.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
