package settings

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// values are values of variables: those that the agent accepts, and others. An empty one counts as
// not set.
var values = map[string]struct{ good, bad []string }{
	"HPP_RESERVE": {[]string{"", "0", "10Gi", "1e3", "1m", "9223372036854775806", "8191Pi"},
		[]string{"-1", "lots", "10GiB", "9223372036854775807", "9223372036854775808", "18446744073709551617", "8Ei", "1e30", "NaN", " 1Gi", "1Gi\n"}},
	"HPP_OVERCOMMIT": {[]string{"", "1", "2.5", "1e3", "1e39"},
		[]string{"0", "-1", "-0", "NaN", "nan", "Inf", "+Inf", "-Inf", "1e309", "twice", " 1", "1,5"}},
	"HPP_ENABLE_BTRFS_QUOTA":    {[]string{"", "true", "FALSE", "1", "t", "tRuE"}, []string{"yes", "on", "2", " true", "true\n"}},
	"HPP_PURGE_RATE":            {[]string{"", "0", "5000", "0x10", "9223372036854775807"}, []string{"-1", "1.5", "fast", "9223372036854775808", "1e3", " 1"}},
	"HPP_COPY_RATE":             {[]string{"", "0", "100Mi", "1e9"}, []string{"-1", "100MiB", "100 Mi", "fast", "10%"}},
	"HPP_TRASH_RETENTION":       {[]string{"", "0", "24h", "90m"}, []string{"-1s", "1d", "24", "long"}},
	"HPP_TRASH_RETENTION_MAX":   {[]string{"", "0", "168h"}, []string{"-1s", "7d", "168"}},
	"HPP_PUBLISH_CAPACITY":      {[]string{"", "true", "False"}, []string{"on"}},
	"HPP_KUBE_API_QPS":          {[]string{"", "0.5", "200"}, []string{"0", "-1", "fast", "NaN", "Inf", "1e39", "1e-60"}},
	"HPP_METRICS_PER_VOLUME":    {[]string{"", "true"}, []string{"yes"}},
	"HPP_CAPACITY":              {[]string{"", "request", "filesystem"}, []string{"disk", "Request", "request "}},
	"HPP_INLINE_VOLUMES":        {[]string{"", "any", "none", "scratch=1Gi,fast=any"}, []string{"Any", "no", "scratch", "scratch=", "scratch=big", "a=1,a=2"}},
	"HPP_SELINUX_LABEL":         {[]string{"", "auto", "system_u:object_r:container_file_t:s0"}, nil},
	"HPP_ORPHANS":               {[]string{"", "report", "delete"}, []string{"Delete", "keep"}},
	"PV_RECLAIM_POLICY":         {[]string{"", "Delete", "Retain"}, []string{"Recycle", "retain", "Keep"}},
	"MIGRATE_USED":              {[]string{"", "true"}, []string{"yes"}},
	"HPP_DIRECTORY_MODE":        {[]string{"", "0770", "1777", "3777"}, []string{"4777", "0", "0000", "rwx", "999", "-0770", "0o770"}},
	MigrateToCSI:                {[]string{"", "off", "plan", "run", "back", "annotated"}, []string{"on", "Run", "run,back"}},
	"MIGRATE_FROM":              {[]string{"", ",", "hostpath", "hostpath, rancher.io/local-path"}, []string{"others", "hostpath,local-path"}},
	"HPP_ORPHAN_GRACE":          {[]string{"", "0", "24h", "1h30m"}, []string{"-1s", "1d", "soon", "24", "NaN", "1e9h"}},
	"USE_NAMING_PREFIX":         {[]string{"", "TRUE"}, []string{"prefix"}},
	Provision:                   {[]string{"", "hostpath", "csi", "hostpath, csi", ","}, []string{"HostPath", "all", "hostpath csi"}},
	"COMPAT":                    {[]string{"", "hostpath,local-path"}, []string{"rancher.io/local-path"}},
	"HPP_LOCAL_PATH_NAMESPACES": {[]string{"", " storage ,", "a,b"}, []string{",", " ", "a,b/c", "A"}},
	"HPP_METRICS_AUTH":          {[]string{"", "none", "token"}, []string{"basic"}},
	"HPP_METRICS_TLS_VERSION":   {[]string{"", "VersionTLS10", "VersionTLS13"}, []string{"VersionTLS14", "1.2"}},
	"HPP_PPROF_ADDRESS":         {[]string{"", ":6060", "[::]:6060"}, []string{"6060", "localhost", "localhost:"}},
}

// The operator passes a value on if the agent's row accepts it: a value that the agent refuses
// would end all agents.
func TestValues(t *testing.T) {
	table := Agent("v1")
	clean(t, table)
	for _, section := range table {
		for _, s := range section.Settings {
			row, given := values[s.Variable()]
			if !given && (s.ConfigMap || s.Kind.Want != text.Want && s.Flag != "v") {
				t.Errorf("%s has no values here", s.Variable())
			}
			for i, value := range append(row.good, row.bad...) {
				t.Setenv(s.Variable(), value)
				_, err := Parse(table, nil, nil, "", nil)
				good, accepted := i < len(row.good), value == "" || s.Kind.Accepts(value)
				if good != accepted || good != (err == nil) {
					t.Errorf("%s is %q: accepted %v, by the agent %v; want %v", s.Variable(), value, accepted, err, good)
				}
			}
			t.Setenv(s.Variable(), "")
		}
	}
}

// Every default is accepted, and each row has help, a kind, and a variable of its own.
func TestRows(t *testing.T) {
	for name, table := range map[string][]Section{"agent": Agent("v1"), "disks": Disks()} {
		seen := map[string]bool{}
		for _, section := range table {
			for _, s := range section.Settings {
				if s.Help == "" || s.Kind.Want == "" || seen[s.Variable()] {
					t.Errorf("%s: --%s (%s) has no help, no kind or another flag's variable", name, s.Flag, s.Variable())
				}
				seen[s.Variable()] = true
				if !s.Kind.Accepts(s.Default) {
					t.Errorf("%s: --%s does not accept its default %q", name, s.Flag, s.Default)
				}
			}
		}
	}
}

// An error names the flag, the variable, the value as it was given, and what is accepted.
func TestErrors(t *testing.T) {
	clean(t, Agent("v1"))
	for _, row := range []struct {
		args  []string
		value string // of HPP_ENABLE_BTRFS_QUOTA
		want  string
	}{
		{[]string{"--reserve=lots"}, "", `--reserve (HPP_RESERVE) is "lots"; set it to a quantity such as 10Gi`},
		{[]string{"--reserve="}, "", `--reserve (HPP_RESERVE) is ""; set it to a quantity such as 10Gi`},
		{[]string{"--purge-rate=fast"}, "", `--purge-rate (HPP_PURGE_RATE) is "fast"; set it to a number that is not negative`},
		{[]string{"--purge-rate", "-2"}, "", `--purge-rate (HPP_PURGE_RATE) is "-2"; set it to a number that is not negative`},
		{[]string{"--enable-btrfs-quota=yes"}, "", `--enable-btrfs-quota (HPP_ENABLE_BTRFS_QUOTA) is "yes"; set it to true or false`},
		{[]string{"--migrate-to-csi=now"}, "", `--migrate-to-csi (MIGRATE_TO_CSI) is "now"; set it to off, plan, run, back or annotated`},
		{[]string{"--reclaim-policy=Keep"}, "", `--reclaim-policy (PV_RECLAIM_POLICY) is "Keep"; set it to Delete or Retain`},
		{nil, "On", `--enable-btrfs-quota (HPP_ENABLE_BTRFS_QUOTA) is "On"; set it to true or false`},
		{[]string{"-v=a"}, "", `--v (HPP_V) is "a"; set it to a number`},
		{[]string{"--no-such"}, "", "unknown flag: --no-such; --help lists the flags"},
		{[]string{"inspcet"}, "", `unknown command "inspcet"; the command is inspect, and --help lists the flags`},
	} {
		t.Setenv("HPP_ENABLE_BTRFS_QUOTA", row.value)
		_, err := Parse(Agent("v1"), row.args, nil, "the command is inspect", nil)
		if err == nil || err.Error() != row.want {
			t.Errorf("%q, %q:\ngot  %v\nwant %s", row.args, row.value, err, row.want)
		}
	}
}

// An argument takes precedence, also over a text that its row would refuse. Targets get the value
// of the row's kind.
func TestParse(t *testing.T) {
	table := Agent("v1")
	clean(t, table)
	t.Setenv("HPP_RESERVE", "lots")
	t.Setenv("HPP_ORPHAN_GRACE", "1h30m")
	t.Setenv("USE_NAMING_PREFIX", "TRUE")
	var (
		reserve           resource.Quantity
		grace             time.Duration
		prefix, all, used bool
		namespaces        []string
		served            []string
	)
	f, err := Parse(table, []string{"--reserve=1Ki", "--orphans", "delete", "--provision=csi", "--migrate-used"}, map[string]any{
		"reserve": &reserve, "orphan-grace": &grace, "use-naming-prefix": &prefix, "orphans": &all, "local-path-namespaces": &namespaces,
		"provision": &served, "migrate-used": &used,
	}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if reserve.String() != "1Ki" || grace != 90*time.Minute || !prefix || !all || !used || !slices.Equal(served, []string{"csi"}) {
		t.Errorf("reserve %s, grace %s, prefix %v, delete %v, used %v, claims %q", &reserve, grace, prefix, all, used, served)
	}
	if got := strings.Join(namespaces, " "); got != "kube-system local-path-storage" {
		t.Errorf("namespaces %q, want the default", got)
	}
	if !f.Changed("orphan-grace") || f.Changed("namespace") {
		t.Error("what the environment sets is changed, and nothing else")
	}
}

func TestHelp(t *testing.T) {
	clean(t, Disks())
	printed := false
	if f, err := Parse(Disks(), []string{"--help"}, nil, "", func() { printed = true }); f != nil || err != nil || !printed {
		t.Errorf("%v, %v, printed %v", f, err, printed)
	}
	usages := Disks()[0].Flags().FlagUsagesWrapped(100)
	if !strings.Contains(usages, "[LP_POLLING_INTERVAL] (default 5m0s)") || strings.Contains(usages, "zap") {
		t.Errorf("%s", usages)
	}
}

// Rows without a target are validated alone.
func TestDisksRefuse(t *testing.T) {
	clean(t, Disks())
	for _, arg := range []string{"--polling-interval=0s", "--polling-interval=-1m", "--polling-interval=5", "--kube-api-qps=0", "--kube-api-qps=NaN"} {
		if _, err := Parse(Disks(), []string{arg}, nil, "", nil); err == nil {
			t.Errorf("%s was accepted", arg)
		}
	}
	if _, err := Parse(Disks(), []string{"--development", "--zap-encoder=console", "--zap-devel"}, nil, "", nil); err != nil {
		t.Error(err)
	}
}

func TestDirectory(t *testing.T) {
	for path, want := range map[string]bool{
		"/data/kubelet": true, "": false, "/": false, "kubelet": false, "/data/": false, "/data/../kubelet": false, "/data//kubelet": false,
	} {
		if got := Directory.Accepts(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

// clean takes away what the machine's environment would decide.
func clean(t *testing.T, table []Section) {
	for _, section := range table {
		for _, s := range section.Settings {
			t.Setenv(s.Variable(), "")
			os.Unsetenv(s.Variable()) // t.Setenv puts it back
		}
	}
}
