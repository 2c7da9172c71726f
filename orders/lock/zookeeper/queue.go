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

// A node is a place in a lock's queue. Its name consists of the client's random text, a dash
// and the server's number.
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

// take joins the queue, and waits in it if the call waits.
func (c *Client) take(call *lease.Call) (*lease.Lock, error) {
	if call.Lease != c.cfg.Lease {
		return nil, fmt.Errorf("zookeeper: got a lease of %v, want the session's %v", call.Lease, c.cfg.Lease)
	}
	ctx, mine := cmp.Or(call.Waiting, call.Ctx), node{folder(call.Key), rand.Text()}
	l, err := c.wait(ctx, call, mine)
	if err == nil {
		return l, nil
	}
	// Delete the node: it would block other callers until our session ends.
	removeErr := c.remove(context.WithoutCancel(ctx), mine)
	if removeErr != nil {
		c.discard(mine)
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

// wait follows the recipe: it joins the queue and watches the node before its own until the
// watched node is gone. If the call does not wait, wait returns ErrHeld instead.
func (c *Client) wait(ctx context.Context, call *lease.Call, mine node) (*lease.Lock, error) {
	if err := c.enter(ctx, mine); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		sent := time.Now() // this request restarts the session's timeout, and so the lease
		queue, err := c.queue(ctx, mine.folder)
		if err != nil {
			return nil, err
		}
		place := slices.IndexFunc(queue, func(n string) bool { return name(n) == mine.random })
		switch {
		case place < 0:
			// The session has ended, and the node with it: join the queue again.
			if err := c.enter(ctx, mine); err != nil {
				return nil, err
			}
			continue
		case place == 0:
			return c.hold(call, mine.folder+"/"+queue[0], sent)
		case call.Waiting == nil:
			return nil, lease.ErrHeld
		}
		if first {
			call.Waits()
		}
		if err := c.watch(ctx, mine.folder+"/"+queue[place-1]); err != nil {
			return nil, err
		}
	}
}

// hold begins the lease. If the lock is lost while the session lives, hold discards the
// node, because the program may never release a lost lock.
func (c *Client) hold(call *lease.Call, nodePath string, sent time.Time) (*lease.Lock, error) {
	l, err := call.Hold(nodePath, sent)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(l.Context(), func() {
		if errors.Is(context.Cause(l.Context()), lease.ErrLost) {
			c.discard(node{folder(call.Key), name(nodePath)})
		}
	})
	return l, nil
}

// enter creates the node. If the answer is lost, enter looks for the node by its name.
// Creating it again would occupy two places in the queue.
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
			// The server deletes containers that have been empty for a while, so a
			// lock leaves nothing behind.
			for _, folder := range []string{Root, mine.folder} {
				if err := c.container(ctx, folder); err != nil {
					return err
				}
			}
		case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrSessionExpired):
			queue, err := c.queue(ctx, mine.folder)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(queue, func(n string) bool { return name(n) == mine.random }) {
				return nil
			}
		default:
			return err
		}
	}
	return errors.New("zookeeper: the node of the wait queue was not created in three attempts")
}

func (c *Client) container(ctx context.Context, path string) error {
	_, err := do(ctx, c, func() (any, error) { return c.conn.CreateContainer(path, nil, zk.FlagContainer, acl) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// queue returns the names of the nodes in order. A missing folder is an empty queue.
func (c *Client) queue(ctx context.Context, folder string) ([]string, error) {
	names, err := do(ctx, c, func() ([]string, error) {
		names, _, err := c.conn.Children(folder)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	// The numbers have ten digits, so their order as text is their order as numbers.
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return names, err
}

// watch waits until the node before ours is gone, or an event suggests that it may be.
func (c *Client) watch(ctx context.Context, before string) error {
	gone, err := do(ctx, c, func() (<-chan zk.Event, error) {
		exists, _, events, err := c.conn.ExistsW(before)
		if err == nil && !exists {
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
	case <-gone: // or the session has ended: the caller then misses its own node
		return nil
	case <-ctx.Done():
		return lease.Ended(ctx)
	}
}

// remove deletes the node whose random text is n.random. Its number may be unknown.
func (c *Client) remove(ctx context.Context, n node) error {
	queue, err := c.queue(ctx, n.folder)
	if err != nil {
		return err
	}
	for _, found := range queue {
		if name(found) == n.random {
			_, err = do(ctx, c, func() (any, error) { return nil, c.conn.Delete(n.folder+"/"+found, -1) })
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
