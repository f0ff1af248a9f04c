# The service: docker build --file deploy/serve.Dockerfile --tag tfdml-serve .
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 tfdml
COPY setup.py pyproject.toml README.md LICENSE /source/
COPY tfdml /source/tfdml
COPY pipelines /source/pipelines
RUN pip install --no-cache-dir '/source[cpu,serve,pgvector,qdrant]' && rm -rf /source

USER 1000
WORKDIR /home/tfdml
EXPOSE 8000
# The address of the index is INDEX; passwords and the token come from the environment: PGPASSWORD, QDRANT_API_KEY,
# TFDML_TOKEN. The exported model is mounted at /model.
ENV INDEX=/index
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
CMD ["sh", "-c", "exec python -m tfdml.serve --index=\"$INDEX\" --model=/model --host=0.0.0.0 --port=8000"]
