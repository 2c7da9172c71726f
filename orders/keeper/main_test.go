package keeper_test

import (
	"testing"

	"flashsale/loadtest/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }
