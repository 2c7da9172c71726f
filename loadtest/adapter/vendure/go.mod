module flashsale/loadtest/adapter/vendure

go 1.26.0

require flashsale v0.0.0

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace flashsale => ../../..
