# gudang as a container: two static programs, certificates, and nothing else.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t gudang .
#   docker run -p 8080:8080 -v gudang:/var/lib/gudang --hostname gudang -e HTTP_TOKEN=choose-one \
#     -e MQTT_URL=tcp://broker:1883 gudang

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./cmd/... \
  && mkdir /out/data

# What it has over an empty image is who signs certificates, which brokers and
# databases in the cloud need, and a user that is not root. A tag and no digest:
# those certificates change, and a rebuild should bring the new ones.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ingest /out/simulate /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/data /var/lib/gudang

# Journal and embedded store, and all that is written: the rest may be mounted
# read-only.
VOLUME /var/lib/gudang
ENV DATA_DIR=/var/lib/gudang

# Loopback is of no use in a container. The start warns if nobody is asked for
# credentials. The broker inside stays on loopback until it has a password:
# EMBEDDED_MQTT_ADDR=0.0.0.0:1883, MQTT_USERNAME and MQTT_PASSWORD.
ENV HTTP_ADDR=0.0.0.0:8080
EXPOSE 8080 1883

# Set MQTT_CLIENT_ID or --hostname: a container's own name changes with each, and
# what waits at the broker waits for the old one.
USER 65532:65532
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s CMD ["/usr/local/bin/ingest", "health"]
ENTRYPOINT ["/usr/local/bin/ingest"]
