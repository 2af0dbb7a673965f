# Two stages: release/install.sh builds in the first, the second has neither compiler nor pip.
# The newest Python that the tests run on; see .ci/run.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends binutils gcc libc6-dev
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY release release
COPY hub hub
COPY peers peers
COPY pyspark_hub pyspark_hub
COPY examples/systemd examples/systemd
RUN release/install.sh /opt/topichub

FROM ${BASE}
ARG VERSION=1.0.0rc1
LABEL org.opencontainers.image.title="topichub" \
      org.opencontainers.image.description="A topic-prefix publish/subscribe hub" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="MIT"
# A numeric id, so that orchestrators can check that it is not root without reading /etc/passwd. /data is the home and the
# working directory: hub.toml is read from there, a journal with a relative path is written there, and the admin's token
# is made there. So one volume holds all that must outlive a container.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip \
 && useradd --system --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin topichub \
 && install -d -o 10001 -g topichub -m 0750 /data
COPY --from=build /opt/topichub /opt/topichub
ENV PATH=/opt/topichub/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HUB_LISTEN=tcp://0.0.0.0:7400,ws://0.0.0.0:7401
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 7400 7401
STOPSIGNAL SIGTERM
# Exec form, and the hub's own command: it needs no shell and no curl.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["hub", "check", "ws://127.0.0.1:7401", "--quiet"]
ENTRYPOINT ["hub"]
CMD ["run"]
