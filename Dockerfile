# One static program and the root certificates: no shell, no package manager,
# and nobody is root in it.
FROM golang:1.26-bookworm AS build
WORKDIR /src
# Before the sources: what they import changes less often than they do.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/flashsale ./cmd/flashsale

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/flashsale /usr/local/bin/flashsale
# By number, so that an orchestrator can see that it isn't root.
USER 65532:65532
# Of its own network, not of the machine's: serve by itself listens on loopback.
ENV FLASHSALE_ADDR=:8080
EXPOSE 8080
# Ready, not merely alive: the proxy starts after it, and `up --wait` waits for it.
HEALTHCHECK --interval=3s --timeout=3s --start-period=60s --retries=3 CMD ["/usr/local/bin/flashsale", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/flashsale"]
CMD ["serve"]
