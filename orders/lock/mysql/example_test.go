package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/orders/lock/fence"
	"flashsale/orders/lock/lease"
	"flashsale/orders/lock/mysql"
)

// dsn is the data source name of the example's database.
var dsn = "shop:password@tcp(localhost:3306)/shop"

// Each transaction under the lock begins with Check, so a holder that wakes up late cannot
// write.
func ExampleFence() {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := db.ExecContext(ctx, mysql.FenceTable); err != nil {
		fmt.Println(err)
		return
	}
	issuer, locks := mysql.NewFence(db), mysql.New(db, lease.Config{}) // or a lock in Redis
	go func() { _ = locks.Run(ctx) }()
	write := func(token int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := issuer.Check(ctx, tx, "lock:{sku}", token); err != nil {
			return err
		}
		// Write the protected data here.
		return tx.Commit()
	}

	first, early, err := fence.Acquire(ctx, locks, issuer, "lock:{sku}")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the first holder writes:", write(early))
	fmt.Println(first.Release(ctx)) // or the lease ends without the holder noticing

	second, late, err := fence.Acquire(ctx, locks, issuer, "lock:{sku}")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the second writes:", write(late))
	err = write(early)
	fmt.Println("the first once more:", errors.Is(err, mysql.ErrFenced), err)
	fmt.Println(second.Release(ctx))
}

// fenceOutput is the output of ExampleFence. It is not an Output comment, because an example
// cannot be skipped if no server is installed.
const fenceOutput = `the first holder writes: <nil>
<nil>
the second writes: <nil>
the first once more: true mysql: fenced off by a later holder: "lock:{sku}" is at 2, not at 1
<nil>
`

func TestExampleFence(t *testing.T) {
	dsn = servertest.OpenSQL(t, servers.KindReal)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatalf("run the example: got error %v, want none", err)
	}
	defer read.Close()
	stdout := os.Stdout
	os.Stdout = write
	ExampleFence() // the output fits into the pipe's buffer
	os.Stdout = stdout
	if err := write.Close(); err != nil {
		t.Fatalf("close the pipe: got error %v, want none", err)
	}
	got, err := io.ReadAll(read)
	if err != nil {
		t.Fatalf("read the output: got error %v, want none", err)
	}
	if string(got) != fenceOutput {
		t.Errorf("output of the example: got\n%s\nwant\n%s", got, fenceOutput)
	}
}
