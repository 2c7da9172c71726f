package zookeeper

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"flashsale/orders/lock/lease"
)

// A node of a lock's line is named by the random part that we give it, a dash,
// and the number that the server gives it.
type node struct{ folder, random string }

func name(nodePath string) string {
	random, _, _ := strings.Cut(path.Base(nodePath), "-")
	return random
}

func number(name string) string {
	_, number, _ := strings.Cut(name, "-")
	return number
}

var acl = zk.WorldACL(zk.PermAll)

// take enters the line, and waits in it if the call waits.
func (c *Client) take(call *lease.Call) (*lease.Lock, error) {
	if call.Lease != c.cfg.Lease {
		return nil, fmt.Errorf("zookeeper: a lease of %v, want the session's %v", call.Lease, c.cfg.Lease)
	}
	ctx, mine := cmp.Or(call.Waiting, call.Ctx), node{folder(call.Key), rand.Text()}
	l, err := c.stand(ctx, call, mine)
	if err == nil {
		return l, nil
	}
	// The node must go: it would block everyone for as long as our session lives.
	removeErr := c.remove(context.WithoutCancel(ctx), mine)
	if removeErr != nil {
		c.throw(mine)
	}
	switch {
	case errors.Is(err, lease.ErrHeld), errors.Is(err, lease.ErrStopped):
		return nil, err
	case ctx.Err() != nil && removeErr == nil:
		return nil, lease.Ended(ctx) // nothing is left behind
	case ctx.Err() != nil:
		err = errors.Join(lease.Ended(ctx), removeErr)
	}
	return nil, fmt.Errorf("%w: %w", lease.ErrUnknown, err)
}

// stand is the recipe.
func (c *Client) stand(ctx context.Context, call *lease.Call, mine node) (*lease.Lock, error) {
	if err := c.enter(ctx, mine); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		// The session, and with it the lease, is alive for its timeout from when
		// the server hears this.
		sent := time.Now()
		line, err := c.line(ctx, mine.folder)
		if err != nil {
			return nil, err
		}
		place := slices.IndexFunc(line, func(n string) bool { return name(n) == mine.random })
		switch {
		case place < 0:
			// The session ended while we stood here: to the end of the line.
			if err := c.enter(ctx, mine); err != nil {
				return nil, err
			}
			continue
		case place == 0:
			return c.hold(call, mine.folder+"/"+line[0], sent)
		case call.Waiting == nil:
			return nil, lease.ErrHeld
		}
		if first {
			call.Waits()
		}
		if err := c.watch(ctx, mine.folder+"/"+line[place-1]); err != nil {
			return nil, err
		}
	}
}

// hold begins the lease. A lock that is lost while the session goes on leaves a
// node, which nobody may come to release.
func (c *Client) hold(call *lease.Call, nodePath string, sent time.Time) (*lease.Lock, error) {
	l, err := call.Hold(nodePath, sent)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(l.Context(), func() {
		if errors.Is(context.Cause(l.Context()), lease.ErrLost) {
			c.throw(node{folder(call.Key), name(nodePath)})
		}
	})
	return l, nil
}

// enter creates the node. If the answer is lost the node is found by its name:
// creating it again would let us stand in the line twice.
func (c *Client) enter(ctx context.Context, mine node) error {
	create := func() (any, error) {
		return c.conn.Create(mine.folder+"/"+mine.random+"-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	}
	for range 3 {
		_, err := do(ctx, c, create)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode):
			// Containers: the server removes them when nobody has stood in them for
			// a while, so that a lock leaves nothing behind.
			for _, folder := range []string{Root, mine.folder} {
				if err := c.container(ctx, folder); err != nil {
					return err
				}
			}
		case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrSessionExpired):
			line, err := c.line(ctx, mine.folder)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(line, func(n string) bool { return name(n) == mine.random }) {
				return nil
			}
		default:
			return err
		}
	}
	return errors.New("zookeeper: no node in three attempts")
}

func (c *Client) container(ctx context.Context, path string) error {
	_, err := do(ctx, c, func() (any, error) { return c.conn.CreateContainer(path, nil, zk.FlagContainer, acl) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// line is who stands in it, in order. Nobody does where there is no folder.
func (c *Client) line(ctx context.Context, folder string) ([]string, error) {
	names, err := do(ctx, c, func() ([]string, error) {
		names, _, err := c.conn.Children(folder)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	// The numbers have ten digits: as text they are in order.
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return names, err
}

// watch waits until the node before ours is gone, or might be.
func (c *Client) watch(ctx context.Context, before string) error {
	gone, err := do(ctx, c, func() (<-chan zk.Event, error) {
		there, _, events, err := c.conn.ExistsW(before)
		if err == nil && !there {
			return nil, zk.ErrNoNode
		}
		return events, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	}
	select {
	case <-gone: // or the session is: then our own node is missed
		return nil
	case <-ctx.Done():
		return lease.Ended(ctx)
	}
}

// remove removes a node whose number we may not know, within a time of its own.
func (c *Client) remove(ctx context.Context, n node) error {
	line, err := c.line(ctx, n.folder)
	if err != nil {
		return err
	}
	for _, found := range line {
		if name(found) == n.random {
			_, err = do(ctx, c, func() (any, error) { return nil, c.conn.Delete(n.folder+"/"+found, -1) })
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
