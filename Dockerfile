# Build with: docker build -t dra-operator:0.1.0 .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/runtime.txt requirements/build.txt requirements/
# What runs goes into the environment that the next stage takes, what builds into one that stays here.
RUN python -m venv /opt/dra-operator \
 && /opt/dra-operator/bin/pip install --require-hashes --only-binary :all: -r requirements/runtime.txt \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY dra_operator dra_operator
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir dist . \
 && /opt/dra-operator/bin/pip install --no-deps --no-index dist/*.whl \
 && /opt/dra-operator/bin/python -m compileall -q /opt/dra-operator/lib \
 && rm -rf /opt/dra-operator/lib/python*/site-packages/pip*

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="dra-operator" \
      org.opencontainers.image.description="Allocates devices to ResourceClaims with priorities, explanations and what-if" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/dra-operator /opt/dra-operator
# The root file system is read-only in the cluster: nothing is compiled or cached at run time.
ENV PATH=/opt/dra-operator/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["dra-operator"]
CMD ["run"]
