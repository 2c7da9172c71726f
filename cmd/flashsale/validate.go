package main

import (
	"errors"
	"strings"

	"flashsale/loadtest"
)

// fieldFlags replaces the fields of loadtest.Config in its errors by the flags that set them.
var fieldFlags = strings.NewReplacer("loadtest: ", "",
	"Stock", "--stock", "UnitsPerBuyer", "--limit", "Buyers", "--buyers", "Rate", "--rate", "Duration", "--duration", "Timeout", "--timeout",
	"MaxQuantity", "--max-quantity", "Replays", "--replays", "SecondOrders", "--second-orders", "Cancels", "--cancels",
	"Payments", "--payments", "PaymentWindow", "--payment-window", "InFlight", "--in-flight")

// check validates an attack before anything is started. Target and Token are not known yet. The error
// of a scenario names the fields of its file.
func (f *attackFlags) check(c loadtest.Config) error {
	c.Target = "http://localhost"
	c.Token = func(string, bool) (string, error) { return "", nil }
	err := c.Validate()
	if err == nil || f.Scenario != "" {
		return err
	}
	return errors.New(fieldFlags.Replace(err.Error()))
}
