package power

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

const fileName = "disk"

// root is the directory with the file.
type root struct {
	fs.Inode
	disk *Disk
}

// OnAdd implements fs.NodeOnAdder.
func (r *root) OnAdd(ctx context.Context) {
	r.AddChild(fileName, r.NewPersistentInode(ctx, &file{disk: r.disk}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

// file is the file below the loop device.
type file struct {
	fs.Inode
	disk *Disk
}

var _ interface {
	fs.NodeOpener
	fs.NodeReader
	fs.NodeWriter
	fs.NodeFsyncer
	fs.NodeGetattrer
} = (*file)(nil)

// Getattr implements fs.NodeGetattrer.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size, out.Blksize = syscall.S_IFREG|0o600, uint64(len(f.disk.shown)), blockSize
	return 0
}

// Open implements fs.NodeOpener. The file has no cache in the kernel, and writes do not wait for
// each other.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO | fuse.FOPEN_PARALLEL_DIRECT_WRITES, 0
}

// Read implements fs.NodeReader.
func (f *file) Read(_ context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if offset >= int64(len(f.disk.shown)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, f.disk.shown[offset:])]), 0
}

// Write implements fs.NodeWriter.
func (f *file) Write(_ context.Context, _ fs.FileHandle, p []byte, offset int64) (uint32, syscall.Errno) {
	if offset+int64(len(p)) > int64(len(f.disk.shown)) {
		return 0, syscall.ENOSPC
	}
	f.disk.write(p, offset)
	return uint32(len(p)), 0
}

// Fsync implements fs.NodeFsyncer: the loop device passes on each flush as one.
func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.disk.Note(Event{Kind: Flush})
	return 0
}
