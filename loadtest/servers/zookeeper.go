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

// zookeeperJar is where Debian's package has it. It names the others it needs.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// ZooKeeper is a private ZooKeeper of one server. It allows sessions of 1 to
// 10 s.
type ZooKeeper struct{ *Process }

// StartZooKeeper starts a ZooKeeper and returns when it answers. ctx bounds the
// start only. Close ends it.
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
				"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m", // to be up soon
				"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true",
				"-Dzookeeper.forceSync=no", // it is to forget what it forgets when we end it
				"-cp", zookeeperJar, "org.apache.zookeeper.server.ZooKeeperServerMain",
				fmt.Sprint(p.port), p.data, "500", "0", // ms per tick, of which sessions are 2 to 20; any number of connections
			}
		},
		serving: askZooKeeper,
	})
	if err != nil {
		return nil, err
	}
	return &ZooKeeper{p}, nil
}

// askZooKeeper returns the version of the server at p's port, once it serves.
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
	return "", fmt.Errorf("the server at %s is no ZooKeeper that serves", p.Addr())
}
