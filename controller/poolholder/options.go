package poolholder

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"kubevirt.io/hostpath-provisioner/volume/poolmount"
)

const holdHelp = `hostpath-provisioner hold mounts the filesystem of a claim at the directory of a
pool on the host, and keeps it mounted until it ends. The mount stays when it
ends. Its container is privileged and has the claim, and the directory above the
pool's with mountPropagation Bidirectional, at the path of the host.

Usage:
  hostpath-provisioner hold --claim DIRECTORY --path DIRECTORY

Flags:
%s
Endpoints on --http-address:
  /healthz   the process lives
  /readyz    the filesystem is mounted, or 503 and what stands in the way
  /status    the text of /readyz with 200 always; ?format=json for scripts

Exit code: 0 after SIGTERM or SIGINT, 2 if the command line is wrong, 1 after
any other error.
`

const unmountHelp = `hostpath-provisioner unmount unmounts what hold has mounted at the directory of a
pool, for the pool --pool with the claim --claim-uid. While it is in use, it tries
again until --deadline. It unmounts nothing else, and nothing lazily.

Usage:
  hostpath-provisioner unmount --path DIRECTORY

Flags:
%s
Exit code: 0 if nothing of the pool is mounted there any more, 2 if the command line is
wrong, 1 after any other error.
`

// Options are the flags of both commands.
type Options struct {
	// Claim is the directory of the claim in the container.
	Claim string
	// Path is the directory of the pool.
	Path string
	// Owner is the pool, with the UID of its claim.
	Owner poolmount.Owner
	// Address serves /healthz, /readyz and /status.
	Address string
	// Every is the time between two checks, or between two attempts.
	Every time.Duration
	// Deadline bounds the attempts to unmount.
	Deadline time.Duration
}

// ParseHold reads the command line of hold. It returns nil options if it only printed help to out.
func ParseHold(args []string, out io.Writer) (*Options, error) {
	o := &Options{}
	f := pflag.NewFlagSet("hold", pflag.ContinueOnError)
	f.StringVar(&o.Claim, "claim", "", "where the container has the claim; required")
	f.StringVar(&o.Address, "http-address", ":9898", "address of /healthz, /readyz and /status")
	f.DurationVar(&o.Every, "interval", 2*time.Second, "time between two checks of the mount")
	if again, err := o.parse(f, args, holdHelp, out); !again {
		return nil, err
	}
	if !filepath.IsAbs(o.Claim) {
		return nil, fmt.Errorf("--claim is %q; set it to the absolute path of the claim in this container", o.Claim)
	}
	return o, nil
}

// ParseUnmount reads the command line of unmount. The options are nil if it only printed help.
func ParseUnmount(args []string, out io.Writer) (*Options, error) {
	o := &Options{}
	f := pflag.NewFlagSet("unmount", pflag.ContinueOnError)
	f.DurationVar(&o.Every, "interval", time.Second, "time between two attempts")
	f.DurationVar(&o.Deadline, "deadline", time.Minute, "time after which it gives up")
	if again, err := o.parse(f, args, unmountHelp, out); !again {
		return nil, err
	}
	return o, nil
}

// parse reads and validates the flags of both commands. ok is false if the command must not run.
func (o *Options) parse(f *pflag.FlagSet, args []string, help string, out io.Writer) (ok bool, err error) {
	f.StringVar(&o.Path, "path", "", "the directory of the pool, on the host and in this container; required")
	f.StringVar(&o.Owner.Pool, "pool", "", "name of the pool: what is mounted for another one stays")
	f.StringVar(&o.Owner.Claim, "claim-uid", "", "UID of the claim: what is mounted for another one stays")
	f.Usage = func() { fmt.Fprintf(out, help, f.FlagUsagesWrapped(100)) }
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w; --help lists the flags", err)
	case f.NArg() > 0:
		return false, fmt.Errorf("%q is no flag; --help lists them", f.Arg(0))
	case !filepath.IsAbs(o.Path) || filepath.Clean(o.Path) != o.Path || filepath.Dir(o.Path) == "/":
		return false, fmt.Errorf("--path is %q; "+
			"set it to the absolute path of the pool's directory, such as /var/pool/csi", o.Path)
	case (o.Owner.Pool == "") != (o.Owner.Claim == ""):
		return false, fmt.Errorf("--pool is %q and --claim-uid is %q; "+
			"set both, or neither for a mount of an earlier version", o.Owner.Pool, o.Owner.Claim)
	case o.Every <= 0:
		return false, fmt.Errorf("--interval is %s; set it to more than 0", o.Every)
	}
	return true, nil
}
