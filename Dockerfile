# The action's image. Reproducible: pinned base, hash-locked dependencies, no timestamps of the build's own.
ARG BASE=docker.io/library/python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254

FROM ${BASE} AS build
ARG PYTHON=python3
ARG SOURCE_DATE_EPOCH=0
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN ${PYTHON} -m venv --without-pip /opt/vllm-gate && ${PYTHON} -m venv /opt/pip
COPY requirements.lock /src/
RUN /opt/pip/bin/pip --python /opt/vllm-gate/bin/python install --quiet --no-compile --no-deps --require-hashes \
      --only-binary :all: -r /src/requirements.lock
COPY src/vllm_gate /src/vllm_gate
COPY LICENSE /opt/vllm-gate/
# The package is pure Python: it is copied, not built, so that no unlocked build tool takes part.
RUN site="$(/opt/vllm-gate/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
 && cp -r /src/vllm_gate "$site/" \
 && for command in vllm-gate:cli vllm-gate-action:action; do \
      printf '#!/opt/vllm-gate/bin/python -I\nfrom vllm_gate.%s import entry\nentry()\n' "${command#*:}" \
        > "/opt/vllm-gate/bin/${command%%:*}" && chmod 755 "/opt/vllm-gate/bin/${command%%:*}"; \
    done \
 # Nobody debugs numpy in here.
 && find "$site" -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} + \
 && find "$site" -name '*.pyi' -delete \
 && /opt/vllm-gate/bin/python -m compileall -q --invalidation-mode unchecked-hash "$site" \
 && find /opt/vllm-gate -exec touch --no-dereference --date "@${SOURCE_DATE_EPOCH}" {} +

FROM ${BASE}
LABEL org.opencontainers.image.title="vllm-gate" \
      org.opencontainers.image.description="Proves that a vLLM release is alive and right before users see it" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/vllm-gate /opt/vllm-gate
# Root, as the runner needs it: the workspace belongs to its user, and what is written there is given to that user.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["/opt/vllm-gate/bin/vllm-gate-action"]
