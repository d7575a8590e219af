package csi

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kubevirt.io/hostpath-provisioner/controller/agent/csi/target"
	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/fault"
	"kubevirt.io/hostpath-provisioner/volume/mount"
)

func TestCodes(t *testing.T) {
	for _, row := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{volume.ErrInvalid, codes.InvalidArgument},
		{volume.ErrConflict, codes.AlreadyExists},
		{volume.ErrNotFound, codes.NotFound},
		{&fault.SpaceError{}, codes.ResourceExhausted},
		{volume.ErrNoQuotas, codes.ResourceExhausted},
		{volume.ErrNotReady, codes.Unavailable},
		{&fault.HeldError{By: "another"}, codes.Unavailable},
		{volume.ErrInUse, codes.FailedPrecondition},
		{volume.ErrDamaged, codes.Internal},
		{mount.ErrTarget, codes.InvalidArgument},
		{mount.ErrOther, codes.FailedPrecondition},
		{target.ErrKind, codes.FailedPrecondition},
		{context.Canceled, codes.Canceled},
		{status.Error(codes.OutOfRange, ""), codes.OutOfRange},
		{errors.New("other"), codes.Internal},
	} {
		err := row.err
		if err != nil && row.want != codes.OutOfRange {
			err = &fault.Error{Op: "create volume", Name: "v", Err: err}
		}
		if got := codeOf("CreateVolume", err); got != row.want {
			t.Errorf("%v: %v, want %v", err, got, row.want)
		}
	}
	if got := codeOf("DeleteVolume", volume.ErrConflict); got != codes.FailedPrecondition {
		t.Errorf("conflict of another method: %v", got)
	}
}

// Every field that the CSI spec marks as a secret is kept out of the log, in the requests that
// carry one: Kubernetes fills it with the data of a Secret.
func TestSecretsAreNotLogged(t *testing.T) {
	const secret = "hunter2"
	tested := 0
	messages := csi.File_csi_proto.Messages()
	for i := range messages.Len() {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(messages.Get(i).FullName())
		if err != nil {
			t.Fatal(err)
		}
		m := kind.New()
		fields := m.Descriptor().Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			if marked, _ := proto.GetExtension(f.Options(), csi.E_CsiSecret).(bool); !marked {
				continue
			}
			if !f.IsMap() {
				t.Fatalf("%s is no map; extend this test", f.FullName())
			}
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("password").MapKey(), protoreflect.ValueOfString(secret))
			tested++
		}
		lines := logged(t, m.Interface())
		if !strings.Contains(lines, "Called") || strings.Contains(lines, secret) {
			t.Errorf("%s: %s", m.Descriptor().Name(), lines)
		}
	}
	if tested < 10 {
		t.Errorf("%d messages have secrets; the spec marks more", tested)
	}
}

// logged returns what the driver logs of a call with the request, which is also the answer.
func logged(t *testing.T, req any) string {
	t.Helper()
	log := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(4), ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), log)
	_, err := server(t).intercept(ctx)(ctx, req, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Node/AnyCall"},
		func(_ context.Context, req any) (any, error) { return req, nil })
	if err != nil {
		t.Fatal(err)
	}
	return log.GetSink().(ktesting.Underlier).GetBuffer().String()
}

func TestPanicIsAnAnswer(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	_, err := server(t).intercept(ctx)(ctx, &csi.ProbeRequest{}, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Identity/Probe"},
		func(context.Context, any) (any, error) {
			var none []int
			return none[len(none)], nil
		})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "out of range") {
		t.Error(err)
	}
}

// server is one that does not serve, with a pool that is not open.
func server(t *testing.T) *Server {
	t.Helper()
	pool, err := volume.New(volume.Config{Name: "legacy", Path: "/srv/pool"})
	if err != nil {
		t.Fatal(err)
	}
	pools, err := volume.NewPools(pool)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{DriverName: "d", Version: "v", NodeID: "n", KubeletDir: "/k", Pools: pools})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClaimUID(t *testing.T) {
	const uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
	for name, want := range map[string]string{
		"pvc-" + uid: uid, uid: "", "pvc-": "", "pvc-1": "", "data-pvc-" + uid: "", "pvc-" + uid + "0": "", "v": "",
	} {
		if got := claimUID(name); got != want {
			t.Errorf("claimUID(%q) = %q", name, got)
		}
	}
}

// An inline volume whose pod names no pool stays in the pool that has it, whatever pools were added
// since, and never comes into one that is not offered.
func TestInlinePool(t *testing.T) {
	for what, row := range map[string]struct {
		// A pool is not offered if it begins with "-", has the volume if it ends with "+", and is not
		// opened yet if it ends with "?".
		pools       []string
		asked, want string // "" is none yet
		may         string // the setting
	}{
		"one":                        {[]string{"a"}, "", "a", "any"},
		"the default":                {[]string{"a", "legacy"}, "", "legacy", "any"},
		"the default is not offered": {[]string{"-legacy", "a"}, "", "a", "any"},
		"the first is not offered":   {[]string{"-a", "b", "c"}, "", "b", "any"},
		"it was made before":         {[]string{"a", "legacy", "b+"}, "", "b", "any"},
		"the pod names one":          {[]string{"a", "legacy", "b+"}, "a", "a", "any"},
		"none is offered":            {[]string{"-a"}, "", "a", "any"},
		"the default may have none":  {[]string{"legacy", "a", "b"}, "", "b", "b=1Gi"},
		"none may have one":          {[]string{"a", "legacy"}, "", "a", "none"},
		"made before the setting":    {[]string{"a", "b+"}, "", "b", "a=any"},
		"one may have it":            {[]string{"legacy", "b?"}, "", "", "any"},
		"it is found before":         {[]string{"legacy", "b?", "c+"}, "", "c", "any"},
		"the pod names one of two":   {[]string{"a", "b?"}, "a", "a", "any"},
	} {
		var all []*volume.Pool
		for _, name := range row.pools {
			c := volume.Config{Path: filepath.Join(t.TempDir(), "pool"), Name: strings.Trim(name, "-+?")}
			if strings.HasPrefix(name, "-") {
				c.NotOffered = "left out"
			}
			p, err := volume.New(c)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "?") && c.NotOffered == "" {
				if err = p.Open(); err == nil && strings.HasSuffix(name, "+") {
					_, err = p.Create(volume.Spec{Name: "csi-1", Bytes: 1 << 20, Ephemeral: true})
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
			}
			all = append(all, p)
		}
		pools, err := volume.NewPools(all...)
		if err != nil {
			t.Fatal(err)
		}
		may, err := contract.ParseInlineVolumes(row.may)
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{config: Config{Pools: pools, Inline: may}}
		p, err := s.inlinePool(row.asked, "csi-1")
		if errors.Is(err, volume.ErrNotReady) != (row.want == "") || err == nil && p.Name() != row.want {
			t.Errorf("%s: %v, %v, want %s", what, p, err, row.want)
		}
	}
}
