package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"flashsale/orders/feed"
	"flashsale/orders/store"
)

// ErrNoFeed is returned if the node has no feed of changes.
var ErrNoFeed = errors.New("orders: this node has no feed of changes")

// maxWait is the maximum time in seconds that a reader of the feed can ask to wait.
const maxWait = 30

// ListChanges returns the handler of GET /v1/admin/changes. Without a feed, it returns ErrNoFeed.
func ListChanges(f *feed.Feed) func(*gin.Context) error {
	return func(c *gin.Context) error {
		if f == nil {
			return ErrNoFeed
		}
		limit, err := limitOf(c, 100, 1000)
		if err != nil {
			return err
		}
		wait, err := waitOf(c)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Request.Context(), wait+store.DefaultTimeout)
		defer cancel()
		changes, next, err := f.Read(ctx, c.Query("after"), limit, wait)
		if err != nil {
			return err
		}
		if changes == nil {
			changes = []store.Change{}
		}
		c.JSON(http.StatusOK, gin.H{"changes": changes, "next": next})
		return nil
	}
}

// waitOf returns the time that the request prefers to wait, at most maxWait.
func waitOf(c *gin.Context) (time.Duration, error) {
	text, given := preference(c.Request.Header, "wait")
	if !given {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, invalid("Prefer", fmt.Sprintf("wait must be a whole number of seconds; up to %d are waited", maxWait))
	}
	c.Header("Preference-Applied", "wait="+strconv.FormatUint(min(seconds, maxWait), 10))
	return time.Duration(min(seconds, maxWait)) * time.Second, nil
}
