# The image contains one static program and the root certificates. It has no shell, no
# package manager and no root user.
FROM golang:1.26-bookworm AS build
WORKDIR /src
# Download modules first: they change less often than the sources.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/flashsale ./cmd/flashsale

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/flashsale /usr/local/bin/flashsale
# A numeric user lets an orchestrator verify that it is not root.
USER 65532:65532
# Listen on the container's network. The default of serve is loopback.
ENV FLASHSALE_ADDR=:8080
# A balancer that polls /readyz notices within this time that the node stops.
ENV FLASHSALE_DRAIN_DELAY=5s
EXPOSE 8080
# Checks readiness, because the proxy starts afterwards and `up --wait` waits for it.
HEALTHCHECK --interval=3s --timeout=3s --start-period=60s --retries=3 CMD ["/usr/local/bin/flashsale", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/flashsale"]
CMD ["serve"]
