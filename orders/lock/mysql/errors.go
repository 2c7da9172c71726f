package mysql

import (
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// gone tells that the connection was over before the question was sent: the
// server has ended it, or we have.
func gone(err error) bool {
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}

func unknownThread(err error) bool {
	e, is := errors.AsType[*mysql.MySQLError](err)
	return is && e.Number == 1094
}
