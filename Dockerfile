# Two stages: wheels are built in the first, the second has neither compiler nor pip's cache.
# The newest Python that the tests run on; see .ci/run.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY hub hub
COPY peers peers
COPY pyspark_hub pyspark_hub
# An image whose hot loops are not compiled would be slow without anybody noticing: the build fails instead.
ENV TOPICHUB_TWINS=required
RUN python -m venv /opt/topichub \
 && /opt/topichub/bin/pip install --no-cache-dir '.[server,fast]'

FROM ${BASE}
# Non-root, with a number, so that orchestrators can check it without reading /etc/passwd.
# /data is its home and where the hub runs: hub.toml is read from there, a journal with a relative path is written there,
# and the admin's token is made there. So one volume holds all that must outlive a container.
RUN useradd --system --uid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin topichub
COPY --from=build /opt/topichub /opt/topichub
ENV PATH=/opt/topichub/bin:$PATH \
    PYTHONUNBUFFERED=1 \
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
