//go:build disk

package volume_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kubevirt.io/hostpath-provisioner/volume"
	"kubevirt.io/hostpath-provisioner/volume/testdisk"
)

// startPostgres starts the server in the directory, until the test ends.
const startPostgres = `cd "$DIR"
setpriv --reuid=65534 --regid=65534 --clear-groups "$BIN/pg_ctl" -D "$DIR/pg" -w -t 120 -l "$DIR/log" \
  -o "-k '$DIR' -c listen_addresses='' -c max_wal_size=8MB -c min_wal_size=4MB -c shared_buffers=16MB" start`

const sql = `setpriv --reuid=65534 --regid=65534 --clear-groups "$BIN/psql" -h "$DIR" -d postgres -U postgres -X -q -t -A -v ON_ERROR_STOP=1 -c "$SQL"`

// The statements of docs/databases.md.
const (
	postgresTable = "create table t (filler text); alter table t alter filler set storage external"
	postgresRow   = "insert into t select repeat(md5(random()::text), 30000)"
	postgresNext  = "insert into t values ('after growth')"
)

// PostgreSQL writes until the quota of its volume is full, and stops or refuses. Once its claim has grown it starts, and every row
// that it confirmed is there. docs/databases.md has the same steps for a claim.
func TestDiskPostgres(t *testing.T) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Fatal("PostgreSQL is missing: e2e/packages.sh postgresql")
	}
	page, err := os.ReadFile("../docs/databases.md")
	ok(t, err)
	for _, statement := range []string{postgresTable, postgresRow, postgresNext} {
		if !strings.Contains(string(page), `"`+statement+`"`) {
			t.Errorf("docs/databases.md lacks: %s", statement)
		}
	}
	root := t.TempDir()
	ok(t, os.Chmod(filepath.Dir(root), 0o755)) // the server is not root
	ok(t, os.Chmod(root, 0o755))
	testdisk.Attach(t, testdisk.Image(t, "btrfs"), root, "commit=1", "nodatacow")
	base := filepath.Join(root, "pool")
	p := opened(t, volume.Config{Path: base, EnableBtrfsQuota: true})
	v, err := p.Create(limited("pvc-db", 80*mib))
	ok(t, err)
	dir := t.TempDir() // what a pod sees: the volume alone, and not the pool's closed directory
	ok(t, os.Chmod(filepath.Dir(dir), 0o755))
	testdisk.Bind(t, v.Path, dir)
	ok(t, os.Chmod(dir, 0o777))
	env := []string{"DIR=" + dir, "BIN=" + filepath.Dir(found[0])}
	query := func(text string) (string, error) { return shell(t, sql, append(env, "SQL="+text)...) }
	t.Cleanup(func() {
		_, _ = shell(t, `setpriv --reuid=65534 --regid=65534 --clear-groups "$BIN/pg_ctl" -D "$DIR/pg" -m immediate stop`, env...)
	})
	mustShell(t, `cd "$DIR"; setpriv --reuid=65534 --regid=65534 --clear-groups "$BIN/initdb" -D "$DIR/pg" -U postgres --wal-segsize=1 -A trust`, env...)
	mustShell(t, startPostgres, env...)
	if out, err := query(postgresTable); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	confirmed, refusal := 0, ""
	for confirmed < 1000 {
		if refusal, err = query(postgresRow); err != nil {
			break
		}
		confirmed++
	}
	u, err2 := p.QuotaUsage("pvc-db")
	ok(t, err2)
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	t.Logf("after %d rows, %d of 80 MiB: %v %s", confirmed, u.Bytes>>20, err, lastLine(refusal))
	full := strings.Contains(refusal+string(log), "quota exceeded") || strings.Contains(refusal, "could not extend file")
	if err == nil || !full || u.Bytes < 78*mib {
		t.Fatalf("no quota was met: %v: %s", err, refusal)
	}
	alive, aliveErr := query("select count(*) from t")
	t.Logf("the server then: %s, %v", lastLine(alive), aliveErr)
	_, err = p.Expand("pvc-db", 160*mib)
	ok(t, err)
	if aliveErr != nil { // it ended, and a kubelet would start it again
		_, _ = shell(t, `setpriv --reuid=65534 --regid=65534 --clear-groups "$BIN/pg_ctl" -D "$DIR/pg" -m immediate stop`, env...)
		mustShell(t, startPostgres, env...)
	}
	rows, err := query("select count(*) from t where length(filler) = 960000")
	if n, err2 := strconv.Atoi(strings.TrimSpace(rows)); err != nil || err2 != nil || n < confirmed {
		t.Errorf("%d rows were confirmed, and there are %s, %v", confirmed, rows, err)
	}
	if out, err := query(postgresNext + "; checkpoint"); err != nil {
		t.Errorf("after growth: %v: %s", err, out)
	}
	t.Logf("after growth: %s rows", strings.TrimSpace(rows))
}
