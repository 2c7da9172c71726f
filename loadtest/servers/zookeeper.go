package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// zookeeperJar is the path of Debian's package. Its manifest names the jars that it
// needs.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// ZooKeeper is a private ZooKeeper of one server. Its sessions have timeouts of 1 s to
// 10 s.
type ZooKeeper struct{ *Process }

// StartZooKeeper starts a ZooKeeper and returns when it answers. ctx applies to the
// start only. Close stops the server.
func StartZooKeeper(ctx context.Context) (*ZooKeeper, error) {
	const install = "apt-get install zookeeper"
	java, err := find(nil, install, "java")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(zookeeperJar); err != nil {
		return nil, fmt.Errorf("%w: no %s; try: %s", ErrNotInstalled, zookeeperJar, install)
	}
	p, err := startProcess(ctx, program{
		name: "zookeeper",
		path: java,
		args: func(p *Process) []string {
			return []string{
				"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m", // fast start
				"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true",
				"-Dzookeeper.forceSync=no", // no sync to disk, because Close removes the data
				"-cp", zookeeperJar, "org.apache.zookeeper.server.ZooKeeperServerMain",
				fmt.Sprint(p.port), p.data, "500", "0", // tick of 500 ms, and session timeouts of 2 to 20 ticks; no limit of connections
			}
		},
		serving: askZooKeeper,
	})
	if err != nil {
		return nil, err
	}
	return &ZooKeeper{p}, nil
}

// askZooKeeper returns the version of the server at p's port once it serves.
func askZooKeeper(ctx context.Context, p *Process, _ int) (version string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if number, ok := strings.CutPrefix(lines.Text(), "Zookeeper version: "); ok {
			number, _, _ = strings.Cut(number, "-")
			return "ZooKeeper " + strings.TrimSuffix(number, ","), nil
		}
	}
	return "", fmt.Errorf("the server at %s does not answer as a ZooKeeper", p.Addr())
}
